"""Recurrent cells stepped by hand: over the parts of a sequence, over tensors, for a number of turns. What draws, or whose
state may change its shape, stays a loop."""

import torch
from torch import nn


class Stepped(nn.Module):
    def __init__(self):
        super().__init__()
        self.lower = nn.LSTMCell(1, 4)
        self.upper = nn.LSTMCell(4, 5)
        self.cell = nn.GRUCell(5, 5)
        self.dropout = nn.Dropout(0.5)
        self.project = nn.Linear(5, 5)
        self.head = nn.Linear(5, 1)

    def forward(self, series, ahead=2):
        outputs = []
        h, c = torch.zeros(series.size(0), 4), torch.zeros(series.size(0), 4)
        state = (torch.zeros(series.size(0), 5), torch.zeros(series.size(0), 5))

        # one value after another
        for value in series.split(1, dim=1):
            h, c = self.lower(value, (h, c))
            state = self.upper(h, state)
            output = self.head(state[0])
            outputs += [output]
        for _ in range(ahead):
            h, c = self.lower(output, (h, c))
            state = self.upper(h, state)
            output = self.head(state[0])
            outputs += [output]

        hidden, context = state
        seen = []
        for row in torch.stack([hidden, context]):
            hidden = self.cell(row, hidden)
            seen.append(hidden)
        for _ in range(3):
            hidden = self.cell(hidden, hidden)
        # what the cell has seen
        trace = []
        for row in hidden.unsqueeze(0):
            hidden = self.cell(row, hidden)
            trace.append(hidden)
        trace = torch.cat(trace, dim=1)
        for row in torch.unbind(torch.stack(seen, dim=1), 1):
            hidden = self.cell(self.dropout(row), hidden)
        for row in seen:
            hidden = torch.tanh(self.project(row) + hidden)
        return torch.cat(outputs, dim=1), hidden + trace.mean()


class Following(nn.Module):
    """A buffer that changes is none of the weights."""

    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(2, 2)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        for row in x.unbind(0):
            x = self.cell(row, x[0])
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        h = torch.zeros(3, 2)
        for _ in range(2):
            h = self.cell(h, h)
        return h + self.mean


model = Stepped()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    series = torch.randn(4, 6)
    predicted, hidden = model(series)
    loss = ((predicted[:, :6] - series) ** 2).mean() + hidden.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
