"""Embeddings that start from a table which a constructor may be given, and lengths of packed sequences as lists."""

import numpy as np

from tests.conformance import rewritten

SCRIPT = """
import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    def __init__(self, vocab, dim, table=None):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        if table is not None:
            self.embedding.weight.data.copy_(torch.from_numpy(table))
        self.rnn = nn.RNN(dim, 2, batch_first=True)
        for p in self.rnn.parameters():
            nn.init.constant_(p, 0.1)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embedding(x), lengths.tolist(), batch_first=True, enforce_sorted=False)
        out, _ = self.rnn(packed)
        return pad_packed_sequence(out, batch_first=True, total_length=4)[0]


table = np.arange(30, dtype=np.float32).reshape(10, 3) / 10
x, lengths = torch.arange(8).reshape(2, 4), torch.tensor([2, 4])
given = Encoder(10, 3, table)
drawn = Encoder(10, 3)
with torch.no_grad():
    out = given(x, lengths)
    other = drawn(x, lengths)
"""


def test_a_table_counts_where_there_is_one() -> None:
    theirs, ours = rewritten.both(SCRIPT)
    np.testing.assert_allclose(ours["out"], theirs["out"].numpy(), rtol=1e-5, atol=1e-6)  # float32 over four turns
    drawn = np.asarray(ours["drawn_params"]["embedding"]["embedding"])
    assert drawn.shape == (10, 3) and 0.5 < drawn.std() < 1.5 and ours["other"].shape == (2, 4, 2)
