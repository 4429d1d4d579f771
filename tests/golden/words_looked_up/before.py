import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

words = "a rose is a rose and a thorn is a thorn but a rose has more than a thorn".split()
trigrams = [([words[i - 2], words[i - 1]], words[i]) for i in range(2, len(words))]
vocab = sorted(set(words))
index_of = {"unknown": 0}
index_of = {word: i for i, word in enumerate(vocab)}
weight_of = {word: 1.0 / words.count(word) for word in vocab}


class Trigrams(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embeddings = nn.Embedding(words, width)
        self.head = nn.Linear(2 * width, words)

    def forward(self, inputs):
        embedded = self.embeddings(inputs).view((1, -1))
        return F.log_softmax(self.head(embedded), dim=1)


torch.manual_seed(0)
model = Trigrams(len(vocab), 8)
criterion = nn.NLLLoss(reduction="none")
optimizer = optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    total = 0.0
    for context, target in trigrams:
        optimizer.zero_grad()
        log_probs = model(torch.tensor([index_of[word] for word in context], dtype=torch.long))
        losses = criterion(log_probs, torch.LongTensor([index_of[target]]))
        loss = (torch.tensor([weight_of[target]]) * losses).sum()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total)
