"""Names that numpy has given up, as it has them now: scripts of their time run with the numpy that JAX needs."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Plain
from migrate.lowering.scope import Scope
from migrate.syntax import nodes

_BUILT_IN = {"float": "float", "int": "int", "object": "object", "str": "str", "complex": "complex", "unicode": "str"}
_RENAMED = {
    "float_": "float64",
    "complex_": "complex128",
    "string_": "bytes_",
    "unicode_": "str_",
    "bool8": "bool_",
    "NaN": "nan",
    "NAN": "nan",
    "Inf": "inf",
    "PINF": "inf",
    "Infinity": "inf",
    "infty": "inf",
    "product": "prod",
    "cumproduct": "cumprod",
    "alltrue": "all",
    "sometrue": "any",
    "row_stack": "vstack",
    "in1d": "isin",
    "trapz": "trapezoid",
}


def current_name(scope: Scope, node: cst.Attribute) -> cst.Name | cst.Attribute | None:
    """`float` for `np.float`, which meant the same, and `np.nan` for `np.NaN`; None for other attributes."""
    name, root = node.attr.value, node.value
    if name not in _BUILT_IN and name not in _RENAMED:
        return None
    module = scope.unit.imported.get(root.value) if isinstance(root, cst.Name) else None
    if module != "numpy" or scope.kind_of(root) != Plain("module"):
        return None
    return nodes.name(_BUILT_IN[name]) if name in _BUILT_IN else node.with_changes(attr=cst.Name(_RENAMED[name]))
