import dataclasses

import flax.linen as nn


def in_mode(module, training, copies=None):
    """A module in train or eval mode, and the modules that it was given in the same."""
    if isinstance(module, tuple | list):
        return type(module)(in_mode(part, training, copies) for part in module)
    if not isinstance(module, nn.Module):
        return module
    copies = {} if copies is None else copies  # a module that was given twice stays one
    if id(module) not in copies:
        modes = {"training": training, "use_running_average": not training, "deterministic": not training}
        names = [
            field.name for field in dataclasses.fields(module) if field.init and field.name not in ("parent", "name")
        ]
        parts = {name: in_mode(getattr(module, name), training, copies) for name in names if name not in modes}
        copies[id(module)] = module.clone(**parts, **{name: modes[name] for name in names if name in modes})
    return copies[id(module)]
