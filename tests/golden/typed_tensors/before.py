"""Tensor types by another name, layers made by a function, sizes and data for the same constructor, a
module called on several devices."""

import numpy as np
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset

cuda = torch.cuda.is_available()
image_shape = (1, 4, 4)
latent = 6


@dataclass
class Output:
    loss: torch.FloatTensor | None = None
    parts: tuple[torch.Tensor, ...] = ()
    first: nn.Linear | None = None
    optimizer: torch.optim.Optimizer | None = None
    device: str | torch.device = "cpu"


class Generator(nn.Module):
    def __init__(self):
        super().__init__()

        def block(width, out, normalize=True):
            layers = [nn.Linear(width, out)]
            if normalize:
                layers.append(nn.BatchNorm1d(out, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(
            *block(latent, 8, normalize=False), *block(8, 12), nn.Linear(12, int(np.prod(image_shape))), nn.Tanh()
        )

    def forward(self, z):
        return self.model(z).view(z.size(0), *image_shape)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, image):
        flat = image.view(image.size(0), -1)
        if (flat.is_cuda or flat.is_xpu) and torch.cuda.device_count() > 1:
            return nn.parallel.data_parallel(self.model, flat, range(torch.cuda.device_count()))
        return self.model(flat)


def weights_init(m):
    if m.__class__.__name__.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0.0)


generator, discriminator = Generator(), Discriminator()
adversarial_loss = nn.BCELoss()
if cuda:
    generator.cuda()
    discriminator.cuda()
generator.apply(weights_init)
discriminator.apply(weights_init)
loader = DataLoader(TensorDataset(torch.rand(32, *image_shape)), batch_size=8)
optimizer_G = torch.optim.Adam(generator.parameters(), lr=0.0002, betas=(0.5, 0.999))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=0.0002, betas=(0.5, 0.999))
Tensor = torch.cuda.FloatTensor if cuda else torch.Tensor
patch = (1,)

for epoch in range(2):
    for (images,) in loader:
        valid = Variable(Tensor(images.size(0), 1).fill_(1.0), requires_grad=False)
        fake = Variable(Tensor(images.shape[0], *patch).fill_(0.0), requires_grad=False)
        real = Variable(images.type(Tensor))

        optimizer_G.zero_grad()
        z = Variable(Tensor(np.random.normal(0, 1, (images.shape[0], latent))))
        made = generator(z)
        g_loss = adversarial_loss(discriminator(made), valid)
        g_loss.backward()
        optimizer_G.step()

        optimizer_D.zero_grad()
        d_loss = (
            adversarial_loss(discriminator(real), valid) + adversarial_loss(discriminator(made.detach()), fake)
        ) / 2
        d_loss.backward()
        optimizer_D.step()
        print(f"{d_loss.item():.4f} {g_loss.item():.4f}")
