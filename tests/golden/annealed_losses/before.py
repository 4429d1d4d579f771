import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def reconstruction(output, target, averaged=True):
    return F.mse_loss(output, target, reduction="mean" if averaged else "sum")


class Noisy(nn.Module):
    def __init__(self, turns=10):
        super().__init__()
        register_buffer = lambda name, value: self.register_buffer(name, value.to(torch.float32))
        kept = 1.0 - torch.linspace(0.0, 0.5, turns)
        register_buffer("scale", torch.sqrt(kept))
        register_buffer("spread", torch.sqrt(1.0 - kept))

    def forward(self, x, turn):
        return x * self.scale[turn] + torch.randn_like(x) * self.spread[turn]


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.noisy = Noisy()
        self.encoder = nn.Linear(6, 4)
        self.decoder = nn.Linear(2, 6)

    @staticmethod
    def reparameterize(mean, log_variance):
        return mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)

    def forward(self, x):
        mean, log_variance = self.encoder(self.noisy(x, 3)).chunk(2, dim=1)
        return self.decoder(VAE.reparameterize(mean, log_variance)), mean, log_variance


torch.manual_seed(0)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.rand(64, 6)
betas = np.linspace(0, 1, 5)
weights = torch.linspace(1, 2, 5)

for epoch in range(5):
    for start in range(0, 64, 16):
        x = data[start : start + 16]
        output, mean, log_variance = model(x)
        divergence = -0.5 * torch.mean(1 + log_variance - mean**2 - log_variance.exp())
        loss = weights[epoch].item() * reconstruction(output, x) + float(betas[epoch]) * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), reconstruction(output, x, averaged=False).item())
