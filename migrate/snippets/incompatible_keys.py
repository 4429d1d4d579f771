import re

from migrate.snippets.IncompatibleKeys import IncompatibleKeys
from migrate.snippets.state_dict import state_dict


def incompatible_keys(params, weights, names, model=None):
    """The weights that a dict under torch's names lacks, and what it has beside them, but for what counts batches."""
    elsewhere = [re.sub(r"\\{\d\\}", r"\\d+", re.escape(name)) for name, place in names.items() if place is None]
    own = []
    for name in state_dict(params, names, model):
        counter = re.sub(r"running_var$", "num_batches_tracked", name)
        counted = counter != name and any(re.fullmatch(pattern, counter) for pattern in elsewhere)
        own += [(name, name), (counter, name)] if counted else [(name, name)]  # a batch norm has it with its statistics
    missing = [name for name, found in own if found not in weights]
    return IncompatibleKeys(missing, [name for name in weights if name not in dict(own)])
