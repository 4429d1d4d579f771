import math


def warm_restarts(rate, first, factor=1, end=0.0):
    """Cosine annealing that starts again after `first` steps, and then after `factor` times as many each time."""

    def schedule(step):
        length = first
        while step >= length:
            step, length = step - length, length * factor
        return end + (rate - end) * (1 + math.cos(math.pi * step / length)) / 2

    return schedule
