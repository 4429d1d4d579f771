import flax.linen as nn

from migrate.snippets.starting_from import starting_from


def with_its_weights(part):
    """A copy of a part of a module, that starts from the weights which it has there. Functions have none."""
    if not isinstance(part, nn.Module):
        return part
    variables = part.variables
    return starting_from(part.copy(), lambda: variables)
