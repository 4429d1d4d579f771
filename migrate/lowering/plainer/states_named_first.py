"""What calls of `state_dict` and `load_state_dict` give, under names of its own:

print(model.load_state_dict(weights, strict=False))     incompatible = model.load_state_dict(weights, strict=False)
                                                        print(incompatible)

weights = {k: v for k, v in weights.items()             own_weights = model.state_dict()
           if v.shape == model.state_dict()[k].shape}   weights = {k: v for k, v in weights.items()
                                                                   if v.shape == own_weights[k].shape}

weights = {k[7:]: v for k, v in torch.load(p).items()}  loaded = torch.load(p)
                                                        weights = {k[7:]: v for k, v in loaded.items()}

print(net.state_dict()["fc.weight"].shape)              own_weights = net.state_dict()
                                                        print(own_weights["fc.weight"].shape)

A state dict shows the weights as they are, so that one for all turns of a comprehension is as good as one for each.
What a file holds is known by how a name for it is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_NAMES = {"load_state_dict": "incompatible", "state_dict": "own_weights"}


def with_states_named(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such names."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits, taken = Edits(), {name.value for name in every(module, cst.Name)}
    imported = imported_names(module)
    named = set[cst.CSTNode]()  # the lines that a loop around has named the state dicts for
    for loop in every(module, cst.For):
        _name(edits, loop, _loaded(loop.iter, imported), taken)
        printing = list(every(loop.body, cst.SimpleStatementLine))
        if all(map(_prints, printing)):
            _name(edits, loop, _looked_into(loop) + ([loop.iter] if _calls(loop.iter, "state_dict") else []), taken)
            named.update(printing)
    for line in every(module, cst.SimpleStatementLine):
        small = suites.alone(line)
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            _name(edits, line, [arg.value for arg in small.value.args if _calls(arg.value, "load_state_dict")], taken)
            if nodes.dotted(small.value.func) == "print" and line not in named:
                _name(edits, line, _looked_into(small.value), taken)
        elif isinstance(small, cst.Assign) and isinstance(small.value, cst.DictComp | cst.ListComp):
            _name(edits, line, _loaded(small.value.for_in.iter, imported), taken)
            _name(edits, line, [call for call in usage.calls(small.value) if _is_asked_again(small.value, call)], taken)
        elif isinstance(small, cst.Assign) and isinstance(small.value, cst.Subscript):
            _name(edits, line, _looked_into(small.value), taken)
    return edits


def _name(edits: Edits, line: Statement, found: Sequence[Expr], taken: set[str]) -> None:
    """Gives what parts of a statement are, which must read the same, a name ahead of it."""
    if len({nodes.code(one) for one in found}) != 1:
        return
    wanted = next((name for method, name in _NAMES.items() if _calls(found[0], method)), "loaded")
    name = usage.unused_name(wanted, taken)
    taken.add(name)
    made = nodes.statement(f"{name} = {{it}}", it=found[0].deep_clone())
    ahead = edits.ahead.get(line, [])
    edits.ahead[line] = [*ahead, made] if ahead else suites.with_comments([made], line)
    edits.parts |= {one: nodes.name(name) for one in found}


def _loaded(iterated: Expr, imported: dict[str, str]) -> list[Expr]:
    """What of a file the pairs or the keys are that code goes through: `torch.load(path)["model"]`."""
    if not any(_calls(iterated, method) for method in ("items", "keys")):
        return []
    assert isinstance(iterated, cst.Call) and isinstance(iterated.func, cst.Attribute)
    root = owner = iterated.func.value
    while isinstance(root, cst.Subscript):
        root = root.value
    return [owner] if isinstance(root, cst.Call) and full_name(root.func, imported) == "torch.load" else []


def _looked_into(node: cst.CSTNode) -> list[Expr]:
    """The state dicts of models of which code takes entries, or goes through: `net.state_dict()["fc.weight"]`."""
    owners = [one.value for one in every(node, cst.Subscript)]
    for call in usage.calls(node):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("keys", "values", "items"):
            owners.append(call.func.value)
        elif nodes.dotted(call.func) in ("len", "list") and len(call.args) == 1:
            owners.append(call.args[0].value)
    return [one for one in owners if _calls(one, "state_dict") and not _OTHERS.search(nodes.code(one))]


_OTHERS = re.compile(r"opt|sched|scaler|\(.*\w.*\)", re.IGNORECASE)  # states of other objects, or with arguments


def _prints(line: cst.SimpleStatementLine) -> bool:
    call = suites.call_alone(line)
    return call is not None and nodes.dotted(call.func) == "print"


def _calls(node: cst.CSTNode, method: str) -> bool:
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value == method


def _is_asked_again(comprehension: cst.DictComp | cst.ListComp, call: cst.Call) -> bool:
    """Whether a call asks a model that is no variable of a comprehension for its state dict in each turn."""
    if not _calls(call, "state_dict") or call.args or nodes.dotted(call.func) is None:
        return False
    variables = {name for each in every(comprehension, cst.CompFor) for name in usage.target_names(each.target)}
    first = any(one is call for one in every(comprehension.for_in.iter, cst.Call))
    return not first and (nodes.dotted(call.func) or "").partition(".")[0] not in variables
