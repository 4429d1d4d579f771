"""Functions that a trainer calls back: they reach a model of the file, whose weights the trainer has, and draw. Settings
that a constructor changes."""
import torch
import torch.nn as nn


class Settings:
    def __init__(self, width):
        self.width = width
        self.rate = 0.5

    def update(self, **changes):
        self.__dict__.update(changes)


class Net(nn.Module):
    def __init__(self, settings):
        super().__init__()
        assert settings.width == 2
        settings.double_width = 2 * settings.width
        settings.update(width=settings.double_width)
        self.table = nn.Embedding(6, settings.width)
        self.head = nn.Linear(settings.width, 6)
        nn.init.constant_(self.table.weight, 0.5)
        nn.init.constant_(self.head.weight, 0.25)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens):
        batch, length = tokens.shape
        return self.head(self.table(tokens))


class Trainer:
    def __init__(self, settings, model, tokens):
        self.settings = settings
        self.model = model
        self.tokens = tokens
        self.callbacks = []
        self.steps = 0

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def run(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.settings.rate)
        for _ in range(3):
            optimizer.zero_grad()
            logits = self.model(self.tokens[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            self.steps += 1
            for callback in self.callbacks:
                callback(self)


settings = Settings(2)
model = Net(settings)
tokens = torch.arange(12).view(2, 6) % 6
trainer = Trainer(settings, model, tokens)


def spread(rows):
    return model(rows).std().item()


def report(trainer):
    picked = torch.randint(6, (2, 3))
    print(trainer.steps, tuple(picked.shape), spread(tokens))


trainer.add_callback(report)
trainer.run()
print(model(tokens).std().item())
