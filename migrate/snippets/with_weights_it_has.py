from migrate.snippets.state_dict import state_dict
from migrate.snippets.with_state_dict import with_state_dict


def with_weights_it_has(params, weights, names, model=None):
    """`params` with those of the weights under torch's names that they have as well, as `strict=False` takes them."""
    own = state_dict(params, names, model)
    known = own | {name: value for name, value in weights.items() if name in own}
    return with_state_dict(params, known, names, model)
