"""Passes 3 to 5: the statements of a file, lowered from torch to JAX.

`rounds` runs the passes over the files of a project; `Lowering` lowers one scope of it, and each file here is one part
of that.
"""

from migrate.lowering.plainer.copies_by_class import Taken, lower_by_class, taken_first
from migrate.lowering.plainer.gradients_of_inputs import passes_by_inputs
from migrate.lowering.plainer.names_of_imports import needed_for_imports, with_names_of_imports
from migrate.lowering.rounds import Input, Lowered

__all__ = [
    "Input",
    "Lowered",
    "Taken",
    "lower_by_class",
    "needed_for_imports",
    "passes_by_inputs",
    "taken_first",
    "with_names_of_imports",
]
