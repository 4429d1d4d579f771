import math


def cyclic(base, peak, step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0):
    """The schedule of torch's CyclicLR: up and down again, by cycles of fixed length."""
    down = step_size_up if step_size_down is None else step_size_down
    total = float(step_size_up) + float(down)
    ratio = step_size_up / total

    def schedule(step):
        cycle = math.floor(1 + step / total)
        x = 1.0 + step / total - cycle
        height = x / ratio if x <= ratio else (x - 1) / (ratio - 1)
        scale = {"triangular": 1.0, "triangular2": 1 / 2.0 ** (cycle - 1), "exp_range": gamma**step}[mode]
        return base + (peak - base) * height * scale

    return schedule
