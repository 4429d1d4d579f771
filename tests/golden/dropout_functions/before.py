"""Dropout by torch's functions: as the mode says, always, and at a rate that each call is given."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, channels, dropout):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, 3)
        self.hidden = nn.Linear(channels * 36, 16)
        self.head = nn.Linear(16, 4)
        self.dropout = dropout

    def forward(self, images):
        x = F.relu(F.dropout2d(self.conv(images), training=self.training))
        x = F.dropout(x.flatten(1), self.dropout, training=self.training)
        x = F.dropout(F.relu(self.hidden(x)), self.dropout, self.training)
        return self.head(F.dropout(x, p=0.1, training=self.training))


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, rate):
        x = F.dropout(self.layer(x), p=rate, training=self.training)
        return F.dropout(x, 0.2)


net, mixed = Net(8, 0.3), Mixed()
optimizer = torch.optim.SGD([*net.parameters(), *mixed.parameters()], lr=0.01)
images, labels = torch.randn(4, 1, 8, 8), torch.randint(0, 4, (4,))
for step in range(5):
    net.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(mixed(net(images), 0.5), labels)
    loss.backward()
    optimizer.step()
    net.eval()
    with torch.no_grad():
        print(step, loss.item(), net(images).argmax(1))
