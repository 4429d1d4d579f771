# Strings, dicts and sets have methods of these names as well.
from collections import OrderedDict, Counter
import re, json
import mytorch.nn as nn          # another package of a similar name
from torchlight import optim, Tensor
from .torch import functional as F
from . import nn as local_nn

words = "the cat sat on the mat".split()
counts = Counter(words)
vocab = OrderedDict(sorted(counts.items(), key=lambda kv: -kv[1]))
index = {w: i for i, w in enumerate(vocab)}
size, repeat = len(vocab), "ab" * 3


class Tokenizer(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.vocab = nn.Embedding(vocab)
        self.register_buffer("table", None)

    def forward(self, text):
        return F.pad([self.vocab[w] for w in text.split()], (0, 1))

    def train(self, corpus):
        for line in corpus:
            for w in line.split(): self.vocab.setdefault(w, len(self.vocab))
        return self


def collate(batch, pad=0):
    longest = max(map(len, batch))
    return [b + [pad]*(longest-len(b)) for b in batch]


def permute(s, *order): return ''.join(s[i] for i in order)


model = Tokenizer(index)
optimizer = optim.Adam(model.parameters(), lr = 1e-3)
for epoch in range(2):
    optimizer.zero_grad()
    loss = model("the cat").sum()
    loss.backward()
    optimizer.step()
print(permute("abc", 2, 0, 1), collate([[1], [2, 3]]), json.dumps(index), re.split(r"\s", "a b"))
print("{:.2f}".format(loss.item()), Tensor(3).cuda().view(-1), {1, 2}.copy(), [3, 1].sort(), (1,).index(1))
