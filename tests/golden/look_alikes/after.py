"""Not torch: numpy, pandas and the user's own names that sound like torch are left byte for byte."""
import numpy as np
import pandas as pd


class Block:
    def __init__(self):
        self.training = True

    def train(self, mode=True):
        self.training = mode
        return self

    def view(self, *shape):
        return  np.zeros(shape)   # odd   spacing stays


def unsqueeze(x, dim): return np.expand_dims(x, dim)


frame = pd.DataFrame({"a": [1, 2]})
x = np.random.randn(3, 4)
y = x.mean(axis=0, keepdims=True).squeeze()
Block().train().view(2, 3).transpose(1, 0).max(1)
frame.to_numpy().item  # noqa
