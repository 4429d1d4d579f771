"""A model whose steps tell the trainer what to plot, through an attribute that the trainer puts on it."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Board:
    def __init__(self):
        self.points = []
        self.xlim = None

    def draw(self, x, y, label):
        self.points.append((x, y, label))
        print(x, y, label)


class Module(nn.Module):
    """The base class of models."""

    def __init__(self):
        super().__init__()
        self.board = Board()

    def plot(self, key, value, train):
        assert hasattr(self, 'trainer'), 'Trainer is not inited'
        if train:
            x = self.trainer.train_batch_idx / self.trainer.num_train_batches
        else:
            x = self.trainer.epoch + 1
        self.board.draw(x, value.detach().cpu().numpy(), ('train_' if train else 'val_') + key)

    def loss(self, y_hat, y):
        raise NotImplementedError

    def forward(self, X):
        return self.net(X)

    def training_step(self, batch):
        l = self.loss(self(*batch[:-1]), batch[-1])
        self.plot('loss', l, train=True)
        self.plot('error', l.exp(), train=True)
        return l

    def validation_step(self, batch):
        l = self.loss(self(*batch[:-1]), batch[-1])
        self.plot('loss', l, train=False)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


class Classifier(Module):
    def loss(self, Y_hat, Y):
        return F.cross_entropy(Y_hat, Y)


class Net(Classifier):
    def __init__(self, num_hidden, num_classes, lr):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Linear(4, num_hidden), nn.ReLU(), nn.Linear(num_hidden, num_classes))


class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def prepare_data(self, data):
        self.train_dataloader, self.val_dataloader = data
        self.num_train_batches = len(self.train_dataloader)
        self.train_batch_idx = 0

    def fit(self, model, data):
        self.prepare_data(data)
        model.trainer = self
        model.board.xlim = [0, self.max_epochs]
        self.model = model
        self.optim = model.configure_optimizers()
        for self.epoch in range(self.max_epochs):
            self.fit_epoch()

    def fit_epoch(self):
        self.model.train()
        for batch in self.train_dataloader:
            loss = self.model.training_step(batch)
            self.optim.zero_grad()
            with torch.no_grad():
                loss.backward()
                self.optim.step()
            self.train_batch_idx += 1
        self.model.eval()
        for batch in self.val_dataloader:
            with torch.no_grad():
                self.model.validation_step(batch)


torch.manual_seed(0)
X = torch.randn(64, 4)
y = torch.randint(0, 3, (64,))
train = DataLoader(TensorDataset(X, y), batch_size=16, shuffle=True)
val = DataLoader(TensorDataset(X, y), batch_size=16)
model = Net(8, 3, lr=0.1)
trainer = Trainer(max_epochs=2)
trainer.fit(model, (train, val))
