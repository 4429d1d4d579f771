"""A recurrent language model trained by hand: the layer chosen by its name, initial weights from a variable of a method, a
first state of the type of the weights, the state detached between chunks, the whole model saved in an open file."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Texts:
    def __init__(self, lines):
        self.words = sorted({word for line in lines for word in line.split()})
        self.train = self.read(lines)

    def read(self, lines):
        rows = []
        for line in lines:
            rows.append(torch.tensor([self.words.index(word) for word in line.split()]).type(torch.int64))
        return torch.cat(rows)


class Recurrent(nn.Module):
    def __init__(self, kind, words, width, hidden, layers, dropout=0.5):
        super().__init__()
        self.words = words
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(words, width)
        if kind in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, kind)(width, hidden, layers, dropout=dropout)
        else:
            self.rnn = nn.RNN(width, hidden, layers, nonlinearity="tanh", dropout=dropout)
        self.decoder = nn.Linear(hidden, words)
        self.init_weights()
        self.kind = kind
        self.hidden = hidden
        self.layers = layers

    def init_weights(self):
        initrange = 0.1
        nn.init.uniform_(self.encoder.weight, -initrange, initrange)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -initrange, initrange)

    def forward(self, tokens, hidden):
        x = self.drop(self.encoder(tokens))
        output, hidden = self.rnn(x, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.words)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, count):
        weight = next(self.parameters())
        if self.kind == "LSTM":
            return (
                weight.new_zeros(self.layers, count, self.hidden),
                weight.new_zeros(self.layers, count, self.hidden),
            )
        return weight.new_zeros(self.layers, count, self.hidden)


parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="LSTM")
parser.add_argument("--lr", type=float, default=2.0)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--bptt", type=int, default=5)
parser.add_argument("--save", default="model.pt")
args = parser.parse_args()
torch.manual_seed(1)
device = torch.device("cpu")

texts = Texts(["a b c a b d a c b a"] * 9)


def batchify(data, size):
    count = data.size(0) // size
    data = data.narrow(0, 0, count * size)
    data = data.view(size, -1).t().contiguous()
    return data.to(device)


train_data = batchify(texts.train, 4)
valid_data = batchify(texts.train, 2)
words = len(texts.words)
model = Recurrent(args.kind, words, 8, 8, 2, 0.0).to(device)
criterion = nn.NLLLoss()


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    else:
        return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i):
    length = min(args.bptt, len(source) - 1 - i)
    return source[i : i + length], source[i + 1 : i + 1 + length].view(-1)


def evaluate(source):
    model.eval()
    total = 0.0
    hidden = model.init_hidden(2)
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, args.bptt):
            tokens, targets = get_batch(source, i)
            output, hidden = model(tokens, hidden)
            hidden = repackage_hidden(hidden)
            total += len(tokens) * criterion(output, targets).item()
    return total / (len(source) - 1)


def train():
    model.train()
    hidden = model.init_hidden(4)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        tokens, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(tokens, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        print(f"{batch} {loss.item():.4f}")


lr = args.lr
best = None
for epoch in range(2):
    train()
    value = evaluate(valid_data)
    print(f"{value:.4f} {math.exp(value):.4f}")
    if not best or value < best:
        with open(args.save, "wb") as f:
            torch.save(model, f)
        best = value
    else:
        lr /= 4.0

with open(args.save, "rb") as f:
    model = torch.load(f)
    model.rnn.flatten_parameters()
print(evaluate(valid_data))
