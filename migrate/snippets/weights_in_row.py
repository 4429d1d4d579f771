import re


def weights_in_row(params, name):
    """The weights of each layer of a list, in its order."""
    layers = {int(found[1]): params[found[0]] for key in params if (found := re.fullmatch(rf"{name}_(\d+)", key))}
    return [layers[number] for number in sorted(layers)]
