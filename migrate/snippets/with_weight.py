def with_weight(params, path, value):
    """The weights with another one at a path, its keys with "/" between them."""
    key, _, rest = path.partition("/")
    return {**params, key: with_weight(params[key], rest, value) if rest else value}
