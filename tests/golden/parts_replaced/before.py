"""Transfer learning: a frozen model gets other parts before it trains."""

import argparse

import torch
import torch.nn as nn


class Backbone(nn.Module):
    def __init__(self, width=8, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.mix = nn.Linear(width, 2 * width)
        self.classifier = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, classes))
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x))).mean((2, 3))
        return self.classifier(self.mix(x))


class Wrapped(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = Backbone(width=4)
        features = self.backbone.mix.in_features
        self.backbone.classifier = nn.Identity()
        self.backbone.mix = nn.Linear(features, 2 * classes)
        self.head = nn.Linear(2 * classes, classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def get_model(num_classes):
    model = Backbone(classes=4)
    for p in model.parameters():
        p.requires_grad = False
    # gray images
    model.stem = nn.Conv2d(1, 8, kernel_size=3, padding=1, bias=False)
    in_features = model.mix.in_features
    model.mix = nn.Sequential(nn.Linear(in_features, 16), nn.BatchNorm1d(16), nn.Dropout(0.1))
    model.classifier[-1] = nn.Linear(model.classifier[-1].in_features, num_classes)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--classes", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = get_model(args.classes)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    criterion = nn.CrossEntropyLoss() if args.classes > 1 else nn.BCEWithLogitsLoss()
    data = [(torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4,))) for _ in range(4)]
    other = Wrapped(3)
    teacher = torch.optim.SGD(other.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        model.train()
        for x, y in data:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            print(loss.item())
            teacher.zero_grad()
            distance = criterion(other(x.expand(-1, 3, -1, -1)), y)
            distance.backward()
            teacher.step()
            print(distance.item())
        model.eval()
        with torch.no_grad():
            print(sum((model(x).argmax(1) == y).sum().item() for x, y in data))


if __name__ == "__main__":
    main()
