"""The LSTM of the bench: a language model over random words, as a script in PyTorch that the bench rewrites."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, WIDTH, LAYERS = 256, 64, 2
BATCH_SIZE, LENGTH = 16, 32


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words):
        states, _ = self.lstm(self.embedding(words))
        return self.head(states)


torch.manual_seed(0)
model = LanguageModel()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
batches = torch.randint(0, VOCABULARY, (8, BATCH_SIZE, LENGTH + 1))
for step in range(100_000):
    words = batches[step % 8]
    optimizer.zero_grad()
    logits = model(words[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), words[:, 1:].reshape(-1))
    loss.backward()
    optimizer.step()
    print(loss.item())
