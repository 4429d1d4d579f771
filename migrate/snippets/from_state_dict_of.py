import re

import numpy as np

from migrate.snippets.from_state_dict import from_state_dict


def from_state_dict_of(model, weights, names, constants):
    """The weights in a dict that also holds what the model makes of its settings, which must be the same there.
    `constants`: where each of those is."""
    made = from_state_dict(weights, names)
    bound = model.bind(made if made.keys() <= {"params", "batch_stats"} else {"params": made})
    patterns = {re.sub(r"\\{\d\\}", r"(\\d+)", re.escape(name)): path for name, path in constants.items()}
    for name, value in weights.items():
        found = [path.format(*m.groups()) for pattern, path in patterns.items() if (m := re.fullmatch(pattern, name))]
        for path in found:
            own = bound
            for part in path.split("/"):
                ends = [len(part), *(i for i, letter in enumerate(part) if letter == "_")]
                end = next(i for i in ends if hasattr(own, part[:i]))
                own, key = getattr(own, part[:end]), part[end + 1 :]
                own = own[int(key) if key.isdigit() else key] if key else own
            if own.shape != value.shape or not np.allclose(own, np.asarray(value), rtol=1e-5, atol=1e-6):
                raise ValueError(f"{name} is a constant of the model, which is another one here")
    return made
