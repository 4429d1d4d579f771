import math


def cosine_annealing(first, steps, end=0.0):
    """`CosineAnnealingLR`: the rate after `epoch` steps, by that of the step before, which may be set in between."""

    def schedule(epoch, rate):
        if (epoch - 1 - steps) % (2 * steps) == 0:
            return rate + (first - end) * (1 - math.cos(math.pi / steps)) / 2
        ratio = (1 + math.cos(math.pi * epoch / steps)) / (1 + math.cos(math.pi * (epoch - 1) / steps))
        return end + (rate - end) * ratio

    return schedule
