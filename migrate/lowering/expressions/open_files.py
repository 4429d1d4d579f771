"""Open files, beside those that `open` gives: what a script saves to them is written, not put at a path."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Plain
from migrate.lowering.scope import Scope
from migrate.syntax import nodes

FILE = Plain("file")
_MAKING = frozenset(
    {"BytesIO", "TemporaryFile", "NamedTemporaryFile"}
    | {"io.BytesIO", "tempfile.TemporaryFile", "tempfile.NamedTemporaryFile", "gzip.open"}
)
_MODES = ("rb", "wb", "ab")


def opens_file(scope: Scope, node: cst.Call) -> bool:
    """Whether a call gives an open file of bytes: `io.BytesIO()`, `path.open("wb")`."""
    path = nodes.dotted(node.func) or ""
    if path in _MAKING:
        return scope.kind_of_name(path.partition(".")[0]) in (Plain("module"), Plain("imported"))
    opens = isinstance(node.func, cst.Attribute) and node.func.attr.value == "open"
    return opens and len(node.args) == 1 and nodes.literal(node.args[0].value) in _MODES
