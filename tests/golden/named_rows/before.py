"""Parts of a row of layers that have names of their own, and a function that returns a list of blocks."""
import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self, cin, c, use_1x1conv=False, strides=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, c, kernel_size=3, padding=1, stride=strides)
        self.conv2 = nn.Conv2d(c, c, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2d(cin, c, kernel_size=1, stride=strides) if use_1x1conv else None
        self.bn1 = nn.BatchNorm2d(c)
        self.bn2 = nn.BatchNorm2d(c)

    def forward(self, X):
        Y = F.relu(self.bn1(self.conv1(X)))
        Y = self.bn2(self.conv2(Y))
        if self.conv3:
            X = self.conv3(X)
        Y += X
        return F.relu(Y)


def resnet_block(cin, c, num_residuals, first_block=False):
    blk = []
    for i in range(num_residuals):
        if i == 0 and not first_block:
            blk.append(Residual(cin, c, use_1x1conv=True, strides=2))
        else:
            blk.append(Residual(c, c))
    return blk


# the stem
b1 = nn.Sequential(
    nn.Conv2d(1, 8, kernel_size=7, stride=2, padding=3),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
)
b2 = nn.Sequential(*resnet_block(8, 8, 2, first_block=True))
b3 = nn.Sequential(*resnet_block(8, 16, 2))
net = nn.Sequential(b1, b2, b3, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(16, 10))
torch.manual_seed(0)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(8, 1, 32, 32)
y = torch.randint(0, 10, (8,))
for step in range(5):
    net.train()
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
