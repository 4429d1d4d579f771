def with_parts(module):
    """The module with its parts, and with the weights that it starts from where it has some."""
    return module.bind(module.initial() if hasattr(module, "initial") else {})
