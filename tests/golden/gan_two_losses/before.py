"""A GAN on blobs. The discriminator's step sums two backward passes; the generator's goes through an earlier forward."""

import torch
import torch.nn as nn
import torch.optim as optim


class Generator(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(latent, 16), nn.BatchNorm1d(16), nn.ReLU(True), nn.Linear(16, 2))

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 16)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, 1)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        return torch.sigmoid(self.last(x)).view(-1)


torch.manual_seed(0)
netG = Generator(4)
netD = Discriminator()
criterion = nn.BCELoss()
optimizerD = optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))
blobs = torch.randn(5, 32, 2) + 2

for i in range(10):
    # the discriminator: real samples, then fake ones
    netD.zero_grad()
    real = blobs[i % 5]
    label = torch.full((real.size(0),), 1.0)
    output = netD(real)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean().item()

    noise = torch.randn(real.size(0), 4)
    fake = netG(noise)
    label.fill_(0.0)
    output = netD(fake.detach())
    errD_fake = criterion(output, label)
    errD_fake.backward()
    D_G_z1 = output.mean().item()
    errD = errD_real + errD_fake
    optimizerD.step()

    # the generator
    netG.zero_grad()
    label.fill_(1.0)
    output = netD(fake)
    errG = criterion(output, label)
    errG.backward()
    D_G_z2 = output.mean().item()
    optimizerG.step()
    print(f"{i} {errD.item():.4f} {errG.item():.4f} {D_x:.4f} {D_G_z1:.4f} / {D_G_z2:.4f}")

fake = netG(torch.randn(8, 4))
print(fake.detach().mean().item())
