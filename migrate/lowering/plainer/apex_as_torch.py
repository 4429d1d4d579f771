"""What NVIDIA's apex has that torch has by now: `apex.parallel.convert_syncbn_model(model)`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.walking import every

_OF_TORCH = {
    "apex.parallel.convert_syncbn_model": "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
    "apex.parallel.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "apex.parallel.SyncBatchNorm": "torch.nn.SyncBatchNorm",
}


def with_apex_as_torch(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with torch's own in the place of what they take of apex."""
    return [one.edited(_edits(one.source.module)) if "apex" in one.source.text else one for one in inputs]


def _edits(module: cst.Module) -> Edits:
    imported, edits = imported_names(module), Edits()
    if imported.get("torch") != "torch":
        return edits
    left = Counter(one.value for one in every(module, cst.Name, closed=cst.ImportFrom))
    for call in usage.calls(module):
        name = full_name(call.func, imported)
        if name in _OF_TORCH:
            edits.parts[call.func] = nodes.expression(_OF_TORCH[name])
            left[nodes.code(nodes.root(call.func))] -= 1
    for line in every(module, cst.SimpleStatementLine) if edits else ():
        bound = usage.stores(line) if isinstance(suites.alone(line), cst.ImportFrom) else []
        if bound and all(imported.get(name) in _OF_TORCH and not left[name] for name in bound):
            edits.instead[line] = []
    return edits
