import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.W = nn.Parameter(torch.empty(width, hidden))
        nn.init.xavier_uniform_(self.W.data, gain=1.414)

    def forward(self, x):
        h = x @ self.W
        return F.elu(torch.softmax(h @ h.T, dim=1) @ h)


class GAT(nn.Module):
    def __init__(self, width, hidden, classes, heads):
        super().__init__()
        self.attentions = [Attention(width, hidden) for _ in range(heads)]
        for i, attention in enumerate(self.attentions):
            self.add_module("attention_{}".format(i), attention)
        self.out = Attention(hidden * heads, classes)

    def forward(self, x):
        x = torch.cat([attention(x) for attention in self.attentions], dim=1)
        return F.log_softmax(self.out(x), dim=1)


# half a stride to the side
shifted = nn.Sequential(nn.ConstantPad2d((0, 1, 0, 1), 0), nn.ConstantPad2d((-1, 0, -1, 0), 0), nn.AvgPool2d(1, stride=2))
print(shifted(torch.arange(16.0).reshape(1, 1, 4, 4)))

model = GAT(8, 4, 3, heads=2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(10, 8)
y = torch.randint(0, 3, (10,))
for epoch in range(3):
    optimizer.zero_grad()
    loss = F.nll_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
