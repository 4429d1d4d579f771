import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.drop(torch.relu(self.norm(self.hidden(x)))))


def main(accumulation=2, clip=1.0):
    torch.manual_seed(0)
    data = torch.randn(64, 6)
    labels = torch.randint(3, (64,))

    def get_batch():
        chosen = torch.randint(64, (8,))
        return data[chosen], labels[chosen]

    model = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    x, y = get_batch()
    for step in range(3):
        # the next batch is fetched while the last one is at work
        for micro_step in range(accumulation):
            loss = criterion(model(x), y) / accumulation
            x, y = get_batch()
            loss.backward()
        if clip != 0.0:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        print(f"loss {loss.item() * accumulation:.4f}")

        # the losses are summed, the step follows at once
        total = 0.0
        losses = []
        for _ in range(accumulation):
            x, y = get_batch()
            output = model(x)
            loss = criterion(output, y) / accumulation
            losses.append(loss.item())
            loss.backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        print(f"total {total:.4f}, last {losses[-1]:.4f}, norm {norm:.4f}")


main()
