"""A variational autoencoder: the noise of the reparameterisation, two methods of one model, Adam."""

import torch
from torch import nn, optim
from torch.nn import functional as F

torch.manual_seed(2)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 16)
        self.fc21 = nn.Linear(16, 4)
        self.fc22 = nn.Linear(16, 4)
        self.fc3 = nn.Linear(4, 16)
        self.fc4 = nn.Linear(16, 20)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


data = torch.rand(64, 20)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)

with torch.no_grad():
    model.encode(data[:2])  # used before the first step, and not by way of forward

for step in range(12):
    batch = data[(step % 4) * 16 : (step % 4 + 1) * 16]
    optimizer.zero_grad()
    recon, mu, logvar = model(batch)
    bce = F.binary_cross_entropy(recon, batch, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = bce + kld
    loss.backward()
    optimizer.step()
print("Done!")
