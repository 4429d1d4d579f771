import math


def one_cycle(first, peak, last, total_steps, pct_start=0.3, linear=False, three_phase=False):
    """The schedule of torch's OneCycleLR: up to a peak, down, and in a third phase on to the last value."""
    ends = [pct_start * total_steps - 1, total_steps - 1]
    values = [first, peak, last]
    if three_phase:
        ends = [pct_start * total_steps - 1, 2 * pct_start * total_steps - 2, total_steps - 1]
        values = [first, peak, first, last]

    def schedule(step):
        start = 0.0
        for number, end in enumerate(ends):
            if step <= end or number == len(ends) - 1:
                break
            start = end
        share = (step - start) / (end - start)
        before, after = values[number], values[number + 1]
        if linear:
            return before + (after - before) * share
        return after + (before - after) / 2 * (1 + math.cos(math.pi * share))

    return schedule
