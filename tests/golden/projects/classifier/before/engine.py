"""The loops, for any model."""

import torch

from config import device
from tools.metrics import Mean, accuracy


def train_one_epoch(model, loader, criterion, optimizer):
    model.train()
    mean = Mean()
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        mean.add(loss.item(), len(targets))
    return mean.value()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    mean = Mean()
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        mean.add(accuracy(model(inputs), targets), len(targets))
    return mean.value()
