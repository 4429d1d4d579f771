"""Sequences of different lengths, packed for a recurrent layer: the lengths go along with the padded array. What reads the
elements of a packed sequence is refused."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 6, padding_idx=0)
        self.rnn = nn.LSTM(6, 5, batch_first=True, bidirectional=True)
        self.tag = nn.Linear(10, 3)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        outputs, (hidden, _) = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True)
        return self.tag(outputs), hidden

    def elements(self, tokens, lengths):
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True)
        outputs, _ = self.rnn(packed)
        return self.tag(outputs.data) + outputs[0].mean()


def collate(rows):
    return pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])


rows = [torch.tensor([1, 2, 3]), torch.tensor([4, 5]), torch.tensor([6, 7, 8, 9])]
loader = DataLoader(rows, batch_size=3, collate_fn=collate)
model = Tagger()
criterion = nn.CrossEntropyLoss(ignore_index=0)
optimizer = torch.optim.Adam(model.parameters())
for tokens, lengths in loader:
    optimizer.zero_grad()
    scores, hidden = model(tokens, lengths)
    loss = criterion(scores.transpose(1, 2), tokens % 3) + hidden.pow(2).mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
