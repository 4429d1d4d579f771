"""A tiny convolutional network: batch normalisation, dropout before the flatten, SGD with momentum."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(4 * 3 * 4, 5)

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(self.drop(x), 1)
        return F.log_softmax(self.fc(x), dim=1)


images = torch.rand(40, 1, 6, 8)
labels = torch.randint(0, 5, (40,))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for epoch in range(3):
    model.train()
    order = torch.randperm(40)
    for i in range(0, 40, 10):
        batch = order[i : i + 10]
        optimizer.zero_grad()
        loss = F.nll_loss(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    print(f"epoch {epoch} accuracy {accuracy:.3f}")
