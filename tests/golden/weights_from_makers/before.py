"""Functions that make a model and read weights for it where they are told to: their callers get both."""

import sys
from typing import Optional

import torch
import torch.nn as nn
from checkpoints_of_others import Published


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear(torch.relu(self.norm(x)))


class Classifier(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Linear(4, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)))


class Autoencoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, width)
        self.decoder = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(torch.tanh(self.encoder(x)))


def classifier(width: int, depth: int, published: Optional[Published]) -> Classifier:
    model = Classifier(width, depth)
    if published is not None:
        model.load_state_dict(published.get_state_dict(progress=False))
    return model


def small_classifier(published: Optional[Published] = None) -> Classifier:
    """The published one has these sizes."""
    return classifier(8, 2, published)


def deep_classifier(weights: dict) -> nn.Module:
    """As deep as the weights say."""
    depth = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
    model = Classifier(weights["stem.weight"].shape[0], depth)
    model.load_state_dict(weights)
    return model.eval()


def classifier_of_the_web(pretrained: bool = False, **sizes: int) -> Classifier:
    model = Classifier(**sizes)
    if pretrained:
        weights = torch.hub.load_state_dict_from_url("https://example.org/classifier.pth", map_location="cuda")
        weights = {name.removeprefix("module."): weight for name, weight in weights.items()}
        model.load_state_dict(weights)
    return model


def autoencoder(width: int, path: Optional[str] = None) -> Autoencoder:
    model = Autoencoder(width)
    if path:
        model.load_state_dict(torch.load(path))
    return model


def main() -> None:
    model = autoencoder(2, sys.argv[1] if len(sys.argv) > 1 else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(8, 4)
        loss = ((model(x) - x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "autoencoder.pt")


if __name__ == "__main__":
    main()
