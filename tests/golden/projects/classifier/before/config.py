"""Settings that every file takes from here."""

import torch

BATCH_SIZE = 16
CLASSES = 3
HIDDEN = 24
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
