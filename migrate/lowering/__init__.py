"""Passes 3 to 5: the statements of a file, lowered from torch to JAX.

`rounds` runs the passes over a file; `Lowering` lowers one scope of it, and each file here is one part of that.
"""

from migrate.lowering.rounds import Lowered, lower

__all__ = ["Lowered", "lower"]
