#!/usr/bin/env python3
# A small network in numpy alone: the names are torch's, nothing else is.
"""Two layers, written out by hand."""
import argparse, sys
import numpy as np
from numpy import random as rnd


class Parameter:
    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)

    def zero_(self):
        self.grad[...] = 0.
        return self


class Module(object):
    training = True

    def parameters(self):
        for v in self.__dict__.values():
            if isinstance(v, Parameter): yield v
            elif isinstance(v, Module):
                yield from v.parameters()

    def train(self, mode=True):
        self.training = mode
        return self

    def eval(self):
        return self.train(False)

    def zero_grad(self):
        for p in self.parameters():
            p.zero_()

    def to(self, device):
        return self

    def cuda(self):  return self

    def state_dict(self):
        return {str(i): p.data.copy() for i, p in enumerate(self.parameters())}

    def load_state_dict(self, state):
        for i, p in enumerate(self.parameters()):
            p.data[...] = state[str(i)]

    def __call__(self, *args):
        return self.forward(*args)


class Linear(Module):
    def __init__(self, n_in, n_out):
        self.weight = Parameter(rnd.randn(n_in, n_out) / np.sqrt(n_in))
        self.bias = Parameter(np.zeros(n_out))

    def forward(self, x):
        self.x = x
        return x @ self.weight.data + self.bias.data

    def backward(self, grad):
        self.weight.grad += self.x.T @ grad
        self.bias.grad   += grad.sum(axis=0)
        return grad @ self.weight.data.T


class ReLU(Module):
    def forward(self, x):
        self.mask = x > 0
        return np.where(self.mask, x, 0)

    def backward(self, grad):
        return grad * self.mask


class Sequential(Module):
    def __init__(self, *layers):
        self.layers = layers

    def parameters(self):
        return [p for layer in self.layers for p in layer.parameters()]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def backward(self, grad):
        for layer in self.layers[::-1]:
            grad = layer.backward(grad)
        return grad


class SGD:
    def __init__(self, params, lr=1e-2, momentum=0.9):
        self.params, self.lr, self.momentum = list(params), lr, momentum
        self.buf = [np.zeros_like(p.data) for p in self.params]

    def step(self):
        for p, b in zip(self.params, self.buf):
            b *= self.momentum
            b += p.grad
            p.data -= self.lr * b

    def zero_grad(self):
        for p in self.params: p.zero_()


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument('--lr', type=float, default=1e-2)
    parser.add_argument( '--epochs', type=int, default = 5)
    args = parser.parse_args(argv)
    rnd.seed(0)
    x = rnd.randn(64, 8).astype(np.float32)
    y = x.sum(axis=1, keepdims=True).clip(-1, 1)
    model = Sequential(Linear(8, 16), ReLU(), Linear(16, 1))
    optimizer = SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        for i in range(0, len(x), 16):
            xb, yb = x[i:i+16], y[i:i+16]
            optimizer.zero_grad()
            out = model(xb)
            loss = ((out - yb)**2).mean()
            model.backward(2 * (out - yb) / yb.size)
            optimizer.step()
        model.eval()
        print("epoch %d: %.4f" % (epoch, loss.item()))
    flat = np.concatenate([p.data.flatten() for p in model.parameters()])
    print(flat.reshape(-1).max(), flat.argmax(0), flat.std(), flat.view(np.uint8).size)
    return model.state_dict()


if __name__ == '__main__':
    sys.exit(0 if main() else 1)
