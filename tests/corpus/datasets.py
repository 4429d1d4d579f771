"""Stand-ins for torchvision's datasets: no download, synthetic images, the attributes that scripts read."""

from __future__ import annotations

import os
from typing import Any

import torch
from PIL import Image
from torch.utils.data import Dataset

from tests.corpus import synthetic

SIZES = {"train": 512, "test": 128}

CIFAR10 = ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FASHION = [
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
]


class Synthetic(Dataset):
    """The interface of torchvision's image datasets over synthetic images."""

    size, channels, labels = 28, 1, 10
    names: list[str] | None = None

    def __init__(
        self,
        root: Any = None,
        train: Any = True,
        transform: Any = None,
        target_transform: Any = None,
        download: bool = False,
        split: str | None = None,
        **_: Any,
    ) -> None:
        split = train if isinstance(train, str) else split
        self.train = split in ("train", "unlabeled", "extra") if split is not None else bool(train)
        self.root, self.transform, self.target_transform = root, transform, target_transform
        self._images, classes = synthetic.images(
            SIZES["train" if self.train else "test"], self.size, self.channels, self.labels, seed=12 - self.train
        )
        self.classes = list(self.names or map(str, range(self.labels)))
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        if self.channels == 1:  # the MNIST family keeps tensors, the CIFAR family an array and a list
            self.data: Any = torch.from_numpy(self._images[..., 0].copy())
            self.targets: Any = torch.from_numpy(classes)
        else:
            self.data, self.targets = self._images, classes.tolist()
        self.imgs = self.samples = [(f"img{i}.png", int(label)) for i, label in enumerate(classes)]

    # what older versions called them
    train_data = test_data = property(lambda self: self.data)
    train_labels = test_labels = property(lambda self: self.targets)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        pixels, target = self._images[int(index)], int(self.targets[int(index)])
        image = Image.fromarray(pixels[..., 0] if self.channels == 1 else pixels)
        return (
            image if self.transform is None else self.transform(image),
            target if self.target_transform is None else self.target_transform(target),
        )


class ImageFolder(Synthetic):
    """A folder of images; the test split where its path says so."""

    channels = 3
    size = int(os.environ.get("STANDIN_IMAGE_SIZE", "64"))

    def __init__(self, root: Any, transform: Any = None, target_transform: Any = None, **_: Any) -> None:
        train = not any(word in str(root) for word in ("val", "test"))
        super().__init__(root, train, transform, target_transform)


def _dataset(name: str, size: int, channels: int, labels: int, names: list[str] | None = None) -> type[Synthetic]:
    return type(name, (Synthetic,), {"size": size, "channels": channels, "labels": labels, "names": names})


DATASETS: dict[str, type[Synthetic]] = {
    "MNIST": _dataset("MNIST", 28, 1, 10),
    "KMNIST": _dataset("KMNIST", 28, 1, 10),
    "FashionMNIST": _dataset("FashionMNIST", 28, 1, 10, FASHION),
    "CIFAR10": _dataset("CIFAR10", 32, 3, 10, CIFAR10),
    "CIFAR100": _dataset("CIFAR100", 32, 3, 100),
    "SVHN": _dataset("SVHN", 32, 3, 10),
    "STL10": _dataset("STL10", 96, 3, 10),
    "CelebA": _dataset("CelebA", 64, 3, 2),
    "LSUN": _dataset("LSUN", 64, 3, 10),
    "ImageFolder": ImageFolder,
}
