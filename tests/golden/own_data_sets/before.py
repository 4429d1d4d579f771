"""Data sets of the script's own, which hold tensors that it made, transforms, and functions of theirs that use torch.nn."""
import torch
import tqdm
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


CENTER = torch.tensor([0.1, 0.2, 0.3, 0.4])


def centered(x):
    return torch.flip(x - CENTER, [1])


class Scale:
    def __init__(self, by):
        self.by = torch.tensor(by)

    def __call__(self, x):
        return x * self.by


class Chain:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


class Settings:
    def __init__(self, device, lr):
        self.device, self.lr, self.limit = torch.device(device), lr, 2.0


class Sequences(Dataset):
    def __init__(self, values, lengths, labels, transform, settings):
        self.transform = transform
        self.limit = Limit(settings.limit)
        self.values, self.lengths, self.labels = values, lengths, labels
        self.by_label = {int(label): (labels == label).nonzero().flatten().tolist() for label in labels.unique()}

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.limit(self.values[index][: int(self.lengths[index])])), self.labels[index]


class Limit:
    def __init__(self, most):
        self.most = most

    def __call__(self, x):
        return torch.clamp(x, -self.most, self.most)


def collate(batch):
    values, labels = zip(*batch)
    return nn.utils.rnn.pad_sequence(values, batch_first=True), torch.stack(labels)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(4, 8, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.gru(x)[0].mean(1))


torch.manual_seed(0)
values = torch.randn(32, 6, 4)
lengths = torch.randint(3, 7, (32,))
labels = torch.randint(0, 3, (32,))
settings = Settings("cpu", 0.01)
data = Sequences(values, lengths, labels, Chain([centered, Scale([1.0, 2.0, 1.0, 0.5])]), settings)
print(len(data), sorted(data.by_label))
loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)
model = Reader().to(settings.device)
optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
for epoch in range(2):
    for _, (x, y) in tqdm.tqdm(enumerate(loader)):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
