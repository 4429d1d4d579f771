from torch.nn import Linear, init


def init_weights(module):
    if isinstance(module, Linear):
        init.kaiming_normal_(module.weight, nonlinearity="relu")
        init.zeros_(module.bias)
