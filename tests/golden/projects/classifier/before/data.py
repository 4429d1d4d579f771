"""A data set, which stays torch."""

import torch
from torch.utils.data import Dataset


class Blobs(Dataset):
    def __init__(self, count, classes):
        self.points = torch.randn(count, 4)
        self.labels = torch.arange(count) % classes
        self.points[:, 0] += self.labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.points[index], self.labels[index]
