"""A layer that an argument chooses, of several that want their channels in different places."""
from torch import nn


class Up(nn.Module):
    def __init__(self, width, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = nn.Conv2d(width, width, 1)
        else:
            self.up = nn.ConvTranspose2d(width, width, 2, stride=2)
            self.conv = nn.Conv2d(width, width, 3)

    def forward(self, x):
        return self.conv(self.up(x))
