from flax import serialization


class LRScheduler:
    """torch's base class of schedulers: a step asks `get_lr` for the rates of the parameter groups."""

    def __init__(self, optimizer, last_epoch=-1, verbose=False):
        self.optimizer, self.last_epoch, self._step_count = optimizer, last_epoch, 0
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.step()

    def step(self, epoch=None):
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = epoch is not None and hasattr(self, "_get_closed_form_lr")
        self._last_lr = list(self._get_closed_form_lr() if closed else self.get_lr())
        for group, rate in zip(self.optimizer.param_groups, self._last_lr):
            group["lr"] = rate

    def get_last_lr(self):
        return self._last_lr

    def state_dict(self):
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state):
        self.__dict__.update(serialization.from_state_dict(self.state_dict(), serialization.to_state_dict(state)))
        for group, rate in zip(self.optimizer.param_groups, self._last_lr):
            group["lr"] = rate
