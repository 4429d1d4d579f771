"""A model that may resume before its data is at hand, and may be seeded; parts and batches are moved
only where there is a device."""

import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Net(nn.Module):
    def __init__(self, channels=3, classes=10):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(channels, 8, 3), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(8 * 4, classes)

    def forward(self, x):
        return self._classified(x)

    def _classified(self, x):
        return self.fc(torch.flatten(self.pool(self.features(x)), 1))


parser = argparse.ArgumentParser()
parser.add_argument("--resume")
parser.add_argument("--small", action="store_true")
parser.add_argument("--cuda", action="store_true")
parser.add_argument("--seed", type=int)


def main():
    args = parser.parse_args()
    if args.seed is not None:
        torch.manual_seed(args.seed)
    if args.small:
        model = Net(classes=2)
    else:
        model = Net()
    if args.cuda:
        model.features = nn.DataParallel(model.features)
        model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if args.resume:
        model.load_state_dict(torch.load(args.resume))
    if args.small:
        data = datasets.FakeData(8, (3, 16, 16), 2, transforms.ToTensor())
    else:
        data = datasets.FakeData(64, (3, 32, 32), 10, transforms.ToTensor())
    loader = DataLoader(data, batch_size=4)
    for images, labels in loader:
        if args.cuda:
            images = images.cuda(non_blocking=True)
            labels = labels.cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        print(loss.item(), images.size(0))


main()
