import math


def swa_schedule(swa_lr, anneal_epochs=10, linear=False):
    """To `swa_lr` in `anneal_epochs` steps, from whatever rate an optimizer has: each rate follows from the last."""

    def passed(step):
        share = max(0.0, min(1.0, step / anneal_epochs))
        return share if linear else (1 - math.cos(math.pi * share)) / 2

    def schedule(step, rate):
        before, now = passed(step - 1), passed(step)
        start = swa_lr if before == 1 else (rate - before * swa_lr) / (1 - before)
        return now * swa_lr + (1 - now) * start

    return schedule
