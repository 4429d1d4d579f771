"""Captions of different lengths: the decoder gives the elements of a packed sequence, which the loss compares with those of
the targets. What else is done with such elements is refused."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 6)
        self.lstm = nn.LSTM(6, 5, batch_first=True)
        self.linear = nn.Linear(5, 10)

    def forward(self, features, captions, lengths):
        embeddings = torch.cat((features.unsqueeze(1), self.embed(captions)), 1)
        hiddens, _ = self.lstm(pack_padded_sequence(embeddings, lengths, batch_first=True))
        return self.linear(hiddens[0])


def collate(rows):
    rows.sort(key=len, reverse=True)
    lengths = [len(row) for row in rows]
    return torch.randn(len(rows), 6), pad_sequence(rows, batch_first=True), lengths


def accuracy(scores, labels):
    return (scores.argmax(1) == labels).float().mean()


rows = [torch.tensor([1, 2, 3]), torch.tensor([4, 5]), torch.tensor([6, 7, 8, 9])]
loader = DataLoader(rows, batch_size=3, collate_fn=collate)
decoder = Decoder()
criterion = nn.CrossEntropyLoss(ignore_index=0)
optimizer = torch.optim.Adam(decoder.parameters())
for features, captions, lengths in loader:
    targets = pack_padded_sequence(captions, lengths, batch_first=True).data
    outputs = decoder(features, captions, lengths)
    loss = criterion(outputs, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())

with torch.no_grad():
    for features, captions, lengths in loader:
        scores = decoder(features, captions, lengths)
        labels, *_ = pack_padded_sequence(captions, lengths, batch_first=True)
        print(accuracy(scores, labels), len(scores), 2 * scores)
