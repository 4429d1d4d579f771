from ..shared import SCALE


def weighted(outputs, targets):
    return SCALE * ((outputs - targets) ** 2).sum(axis=1).mean()
