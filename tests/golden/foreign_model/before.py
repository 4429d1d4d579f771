"""A model of another package that is trained here: said once, where it is made."""

import torch
import torch.nn as nn
import torchvision
import torchvision.models as models
from torch.optim.lr_scheduler import StepLR


def train(loader, model, criterion, optimizer, device):
    model.train()
    for images, target in loader:
        output = model(images.to(device))
        loss = criterion(output, target.to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(loss.item(), accuracy(output, target))


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean().item()


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(x)


def main(arch="resnet18"):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = models.__dict__[arch](num_classes=10)
    model = nn.DataParallel(model).to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = StepLR(optimizer, step_size=30, gamma=0.1)
    loader = torch.utils.data.DataLoader(torchvision.datasets.FakeData(10))
    for epoch in range(3):
        train(loader, model, criterion, optimizer, device)
        scheduler.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.pt")


main()
