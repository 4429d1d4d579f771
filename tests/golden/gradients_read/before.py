"""Gradients that a loop looks at between backward() and the step."""

import torch
import torch.nn as nn

x = torch.randn(16, 3)
y = torch.randn(16, 1)


def gradient_norm(model):
    norms = [torch.norm(p.grad.detach(), 2) for p in model.parameters() if p.grad is not None]
    return torch.norm(torch.stack(norms), 2).item()


model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
earlier = None
for step in range(5):
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    largest = max(p.grad.abs().max().item() for p in model.parameters())
    ratio = sum((p.grad.norm() / p.detach().norm()).item() for p in model.parameters())
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    kept = []
    for p in model.parameters():
        kept.append(p.grad.clone())
    if earlier is not None:
        print("cosine", sum((a * b).sum() for a, b in zip(earlier, kept)).item())
    earlier = [p.grad.detach().clone() for p in model.parameters()]
    print(loss.item(), gradient_norm(model), largest, ratio, flat.norm().item())
    optimizer.step()
