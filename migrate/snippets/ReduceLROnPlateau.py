import math


class ReduceLROnPlateau:
    """Lowers a learning rate where a metric has stopped improving; `step` returns the rate from then on."""

    def __init__(
        self,
        lr,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        self.lr, self.mode, self.factor, self.patience = lr, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lr, self.eps = min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.bad_epochs = self.waiting = 0

    def better(self, metric):
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            bound = self.best * (1 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return metric > bound if self.mode == "max" else metric < bound

    def step(self, metric):
        metric = float(metric)
        if self.better(metric):
            self.best, self.bad_epochs = metric, 0
        else:
            self.bad_epochs += 1
        if self.waiting > 0:
            self.waiting, self.bad_epochs = self.waiting - 1, 0
        if self.bad_epochs > self.patience:
            lowered = max(self.lr * self.factor, self.min_lr)
            self.lr = lowered if self.lr - lowered > self.eps else self.lr
            self.waiting, self.bad_epochs = self.cooldown, 0
        return self.lr
