"""The page of the documentation that lists the operations."""

from __future__ import annotations

from parity.operations.programs import in_torch, returned
from parity.operations.study import rewritten
from parity.operations.table import OPERATIONS

_HEAD = """<!-- Generated from the table: MIGRATE_UPDATE_DOCS=1 pytest tests/meta/test_pages.py -->
# Operations

What `migrate parity --op NAME` compares ([guide](../guides/operations.md)). In JAX each is what `migrate rewrite`
writes for it; a helper that it calls is copied into rewritten scripts.

| name | torch | JAX | points |
| --- | --- | --- | --- |
"""


def page() -> str:
    torch = in_torch(OPERATIONS)
    jax = rewritten(torch)
    rows = [
        f"| {name} | `{returned(torch, name)}` | `{operation.flax or returned(jax, name)}` | {len(operation.points)} |"
        for name, operation in OPERATIONS.items()
    ]
    return _HEAD + "\n".join(rows) + "\n\nPoints are special values and ties, which are tried besides the samples.\n"
