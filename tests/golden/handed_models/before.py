"""Models that become parts of another one, before and after they are trained themselves, and go on under their names."""
import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.hidden = nn.Linear(6, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return torch.relu(self.norm(self.hidden(x)))


class AutoEncoder(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encode = encoder
        self.decode = decoder

    def forward(self, x):
        return self.decode(self.encode(x))


class Classifier(nn.Module):
    def __init__(self, body, classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        return self.head(self.body(x))


def train(model, optimizer, x, y, steps):
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, y = torch.randn(16, 6), torch.randn(16, 3)

encoder = Encoder().to(device)
decoder = nn.Linear(8, 6).to(device)
model = AutoEncoder(encoder, decoder)
train(model, torch.optim.SGD(model.parameters(), lr=0.1), x, x, 2)
model.eval()
with torch.no_grad():
    print(encoder(x).sum().item())

body = Encoder()
optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
for _ in range(2):
    loss = body(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
for p in body.parameters():
    p.requires_grad = False
classifier = Classifier(body, 3)
tuning = torch.optim.Adam(classifier.parameters(), lr=0.01)
for _ in range(2):
    loss = nn.functional.mse_loss(classifier(x), y)
    tuning.zero_grad()
    loss.backward()
    tuning.step()
    print(loss.item())
