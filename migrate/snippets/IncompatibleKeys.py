from typing import NamedTuple


class IncompatibleKeys(NamedTuple):
    """What a model has and a state dict has not, and the other way round; it shows itself as torch's."""

    missing_keys: list
    unexpected_keys: list

    def __repr__(self):
        shown = f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"
        return shown if any(self) else "<All keys matched successfully>"
