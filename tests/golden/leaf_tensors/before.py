"""Tensors with requires_grad=True in the place of a model: updated by hand, by `.data`, and by an optimizer."""

import torch

w = torch.zeros(3, 1, requires_grad=True)
b = torch.zeros(1).requires_grad_()
X = torch.randn(32, 3)
y = X @ torch.tensor([[1.0], [2.0], [3.0]]) + 0.5


def net(x):
    return x @ w + b


for epoch in range(5):
    loss = ((net(X) - y) ** 2).mean()
    loss.backward()
    # the same update in two notations
    w.data -= 0.1 * w.grad.data
    with torch.no_grad():
        b -= 0.1 * b.grad
    print(loss.item(), w.grad.norm().item(), b.norm().item())
    w.grad = None
    b.grad.data.zero_()

theta = torch.tensor([1.0, 2.0], requires_grad=True)
offset = torch.ones(2, requires_grad=True)
optimizer = torch.optim.Adam([theta, offset], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    value = (theta * offset * theta.data).sum()
    value.backward()
    optimizer.step()
    print(value.item())
