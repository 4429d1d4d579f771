"""What NVIDIA's apex has that torch has by now: `apex.parallel.convert_syncbn_model(model)`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
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
    names, imports = dict[str, str](), dict[cst.SimpleStatementLine, list[str]]()
    for line in every(module, cst.SimpleStatementLine):
        small = suites.alone(line)
        if (
            isinstance(small, cst.ImportFrom)
            and not isinstance(small.names, cst.ImportStar)
            and small.module is not None
        ):
            of = nodes.dotted(small.module) or ""
            taken = {one.evaluated_alias or one.evaluated_name: f"{of}.{one.evaluated_name}" for one in small.names}
            names |= taken
            if set(taken.values()) <= _OF_TORCH.keys():
                imports[line] = list(taken)
        elif isinstance(small, cst.Import):
            names |= {one.evaluated_name: one.evaluated_name for one in small.names if one.evaluated_alias is None}
    edits, left = Edits(), Counter(one.value for one in every(module, cst.Name, closed=cst.ImportFrom))
    for call in usage.calls(module) if "torch" in names else ():
        head, _, rest = (nodes.dotted(call.func) or "").partition(".")
        whole = names.get(head, "") + (f".{rest}" if rest else "")
        if whole in _OF_TORCH:
            edits.parts[call.func] = nodes.expression(_OF_TORCH[whole])
            left[head] -= 1
    if edits:
        gone = [line for line, found in imports.items() if not any(left[name] for name in found)]
        edits.instead |= {line: [nodes.statement("pass")] if _is_all(module, line) else [] for line in gone}
    return edits


def _is_all(module: cst.Module, line: cst.SimpleStatementLine) -> bool:
    """Whether a statement is the only one of its block."""
    return any(list(one.body) == [line] for one in every(module, cst.IndentedBlock))
