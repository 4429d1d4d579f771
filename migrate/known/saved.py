"""What the files hold that a script saves, as the lowering finds it."""

from __future__ import annotations

from dataclasses import dataclass

from migrate.known.kinds import Place


@dataclass(frozen=True)
class OptaxChain:
    """What makes an optimizer: its class in torch, its expression in the output, and whether it is given all parameters
    of its model, in their order."""

    torch: str
    optax: str
    whole: bool


@dataclass(frozen=True)
class SavedEntry:
    """An entry of a dict, by its key; what it holds (`saved_files.HOLDS`), and whose state that is: the place of a
    model or an optimizer, of a scheduler that of its optimizer."""

    key: str
    holds: str
    place: Place | None = None
