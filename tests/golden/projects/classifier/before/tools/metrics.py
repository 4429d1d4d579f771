"""Uses no torch of its own: `accuracy` is given tensors all the same."""


class Mean:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value, count):
        self.total += value * count
        self.count += count

    def value(self):
        return self.total / max(self.count, 1)


def accuracy(outputs, targets):
    return (outputs.argmax(dim=1) == targets).float().mean().item()
