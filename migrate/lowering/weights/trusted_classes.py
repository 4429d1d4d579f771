"""What `torch.load` is told that it may read: `with torch.serialization.safe_globals([Net]): ...`.

The files of the output hold arrays and numbers alone, which need no trust.
"""

from __future__ import annotations

import libcst as cst

from migrate.lowering.scope import Scope
from migrate.syntax import usage
from migrate.syntax.walking import every

TRUSTING = frozenset({"torch.safe_globals", "torch.add_safe_globals"})  # of torch.serialization


def lists_trusted(scope: Scope, target: cst.CSTNode) -> bool:
    """Whether a name stands for a list of such classes, and is read for nothing else."""
    if not isinstance(target, cst.Name):
        return False
    module = scope.unit.source.module
    if not any(name.rpartition(".")[2] in scope.unit.source.text for name in TRUSTING):
        return False
    trusting = [call for call in every(module, cst.Call) if scope.torch_name(call.func) in TRUSTING]
    given = sum(isinstance(arg.value, cst.Name) and arg.value.value == target.value for c in trusting for arg in c.args)
    return 0 < given == usage.loads(module).count(target.value)
