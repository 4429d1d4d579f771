"""Functions and objects that go backward from what their callers compute: the update is all of that together."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class NoamOpt:
    """Optimizer wrapper that implements the rate."""

    def __init__(self, model_size, warmup, optimizer):
        self.optimizer = optimizer
        self.model_size = model_size
        self.warmup = warmup
        self._step = 0

    def step(self):
        self._step += 1
        for p in self.optimizer.param_groups:
            p["lr"] = self.rate()
        self.optimizer.step()

    def rate(self):
        return self.model_size**-0.5 * min(self._step**-0.5, self._step * self.warmup**-1.5)


class Generator(nn.Module):
    def __init__(self, d_model, vocab):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x):
        return F.log_softmax(self.proj(x), dim=-1)


class Tagger(nn.Module):
    """A model whose forward pass leaves out its last part."""

    def __init__(self, vocab, d_model=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.generator = Generator(d_model, vocab)

    def forward(self, x):
        return torch.relu(self.fc(self.embed(x)))


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding, smoothing):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.size = size
        self.padding = padding
        self.smoothing = smoothing

    def forward(self, x, target):
        dist = torch.full_like(x.data, self.smoothing / (self.size - 2))
        dist.scatter_(1, target.data.unsqueeze(1), 1.0 - self.smoothing)
        dist[:, self.padding] = 0
        mask = torch.nonzero(target.data == self.padding)
        if mask.dim() > 0:
            dist.index_fill_(0, mask.squeeze(), 0.0)
        return self.criterion(x, dist)


class Batch:
    def __init__(self, src, trg):
        self.src = src
        self.trg = trg
        self.ntokens = (trg != 0).sum()

    @staticmethod
    def drawn(vocab):
        tokens = torch.randint(0, vocab, (8, 6))
        return Batch(tokens[:, :-1], tokens[:, 1:])


class SimpleLossCompute:
    """A simple loss compute and train function."""

    def __init__(self, generator, criterion, opt=None):
        self.generator = generator
        self.criterion = criterion
        self.opt = opt

    def __call__(self, x, y, norm):
        x = self.generator(x)
        loss = self.criterion(x.contiguous().view(-1, x.size(-1)), y.contiguous().view(-1)) / norm
        if self.opt is not None:
            loss.backward()
            self.opt.step()
            self.opt.optimizer.zero_grad()
        return loss.item() * norm


def run_epoch(data_iter, model, loss_compute):
    total = 0.0
    for batch in data_iter:
        out = model(batch.src)
        total += loss_compute(out, batch.trg, batch.ntokens)
    return total


class DecayingSGD(torch.optim.SGD):
    """A class that only says how an optimizer is made."""

    def __init__(self, params, lr, momentum=0.9):
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=0.1 * lr)


class WarmupLinearSchedule(torch.optim.lr_scheduler.LambdaLR):
    """Linear warmup and then linear decay."""

    def __init__(self, optimizer, warmup_steps, t_total, last_epoch=-1):
        self.warmup_steps = warmup_steps
        self.rest = t_total - warmup_steps
        super(WarmupLinearSchedule, self).__init__(optimizer, self.lr_lambda, last_epoch=last_epoch)

    def lr_lambda(self, step):
        if step < self.warmup_steps:
            return step / max(1, self.warmup_steps)
        return max(0.0, 1 - (step - self.warmup_steps) / max(1, self.rest))


class Stepper:
    """Goes backward for whoever has a loss."""

    def __init__(self, model, opt):
        self.model = model
        self.opt = opt

    def __call__(self, loss):
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()


def update(hidden, labels):
    """Trains the head, and what has made the hidden values."""
    loss = F.cross_entropy(head(hidden), labels)
    both.zero_grad()
    loss.backward()
    both.step()
    return loss.item()


torch.manual_seed(0)
vocab = 11
model = Tagger(vocab)
criterion = LabelSmoothing(vocab, padding=0, smoothing=0.1)
optimizer = NoamOpt(16, 4, torch.optim.Adam(model.parameters(), lr=0, betas=(0.9, 0.98), eps=1e-9))
for epoch in range(2):
    train = [Batch.drawn(vocab) for _ in range(4)]
    print(run_epoch(train, model, SimpleLossCompute(model.generator, criterion, optimizer)))
    print(run_epoch(train, model, SimpleLossCompute(model.generator, criterion, None)))

body = nn.Linear(4, 8)
head = nn.Linear(8, 2)
both = torch.optim.SGD(list(body.parameters()) + list(head.parameters()), lr=0.1)
for _ in range(3):
    print(update(torch.relu(body(torch.randn(8, 4))), torch.randint(0, 2, (8,))))

net = nn.Linear(4, 2)
sgd = DecayingSGD(net.parameters(), lr=0.1)
schedule = WarmupLinearSchedule(sgd, 1, 4)
stepper = Stepper(net, sgd)
for _ in range(3):
    loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
    stepper(loss)
    schedule.step()
    print(loss.item())
