"""A seed in the constructor of a model, as notebooks on graphs have it:

class Net(nn.Module):                                     net = Net()
    def __init__(self):
        super().__init__()
        torch.manual_seed(12345)

Flax runs `setup` in each forward pass, and the seed is one of what is drawn after the model is made. It is taken as if
it had been set where the model is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.updates_in_place import call_sites
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_SEED = "torch.manual_seed"
_DEEPEST = 4  # how many classes may make one another


def with_seeds_outside(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with the seeds of constructors where these are called."""
    made = list(inputs)
    for _ in range(_DEEPEST):
        edits = _edits(made)
        if not any(edits):
            break
        made = [one.edited(edit) for one, edit in zip(made, edits, strict=True)]
    return made


def _edits(inputs: Sequence[Input]) -> list[Edits]:
    edits = [Edits() for _ in inputs]
    seeds = [(cls.name.value, seed, edit) for one, edit in zip(inputs, edits, strict=True) for cls, seed in _seeds(one)]
    sites = [list(call_sites(one.source.module)) for one in inputs] if seeds else []
    calls = [call for one in inputs for call in usage.calls(one.source.module)] if seeds else []
    for name, seed, own in seeds:
        found = [[site for site in each if _called(site.call) == name] for each in sites]
        written = [call for call in calls if _called(call) == name]
        if not written or len(written) != sum(map(len, found)):
            continue
        for edit, each in zip(edits, found, strict=True):
            for line in dict.fromkeys(site.line for site in each):
                first = seed.with_changes(leading_lines=line.leading_lines)
                edit.instead[line] = [first, line.with_changes(leading_lines=[])]
        own.instead[seed] = []
    return edits


def _seeds(one: Input) -> Iterator[tuple[cst.ClassDef, cst.SimpleStatementLine]]:
    """The classes of a file whose constructors set a seed, and the lines that do."""
    if "manual_seed(" not in one.source.text:
        return
    imported = imported_names(one.source.module)
    for cls in every(one.source.module, cst.ClassDef):
        seed = _seed_of(cls, imported)
        if seed is not None:
            yield cls, seed


def _called(call: cst.Call) -> str:
    return (nodes.dotted(call.func) or "").rpartition(".")[2]


def _seed_of(cls: cst.ClassDef, imported: Mapping[str, str]) -> cst.SimpleStatementLine | None:
    """The line of a constructor that sets a seed which is written out; None where there is none, or more than one."""
    made = suites.methods_of(cls).get("__init__")
    lines = [line for line in suites.suite_of(made.body.body) if _is_seed(line, imported)] if made else []
    line = lines[0] if len(lines) == 1 else None
    return line if isinstance(line, cst.SimpleStatementLine) else None


def _is_seed(line: Statement, imported: Mapping[str, str]) -> bool:
    small = suites.alone(line)
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call) or full_name(call.func, imported) != _SEED or len(call.args) != 1:
        return False
    return isinstance(nodes.literal(call.args[0].value), int)
