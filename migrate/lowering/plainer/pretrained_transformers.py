"""Models of transformers that start from published weights: `model = BertModel.from_pretrained("bert-base-uncased")`.

The input is taken as if the model was made of its settings, and given the weights of the library's own, which torch
loads; it is in eval mode by then. Results are dicts, whatever `return_dict` says.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import cast

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.eval_where_made import is_named_module
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.chains import unchained
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

PRETRAINED = "torch.pretrained_of_transformers"  # stands for the weights of the library's own model

# With these a model is not that of its settings in float32, on one device.
_OTHERWISE = frozenset(
    {"torch_dtype", "dtype", "device_map", "quantization_config", "load_in_8bit", "load_in_4bit", "state_dict"}
    | {"ignore_mismatched_sizes", "low_cpu_mem_usage", "max_memory", "gguf_file", "subfolder"}
)


def with_pretrained_made(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such models made of their settings."""
    trains = any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value == "train" and not call.args
        for one in inputs
        for call in every(one.source.module, cst.Call)
    )
    return [one.edited(_edits(one, trains)) for one in inputs]


def _edits(one: Input, trains: bool) -> Edits:
    edits, module = Edits(), one.source.module
    borrowed = {name for name in one.borrowed if name.startswith("transformers.")}
    if not borrowed:
        return edits
    imported = imported_names(module)
    classes = filter(is_named_module, every(module, cst.ClassDef))
    inside = {line for one in classes for line in every(one, cst.SimpleStatementLine)}
    for line in every(module, cst.SimpleStatementLine):
        small = suites.alone(line)
        made = _made(small, borrowed, imported) if isinstance(small, cst.Assign) else None
        if isinstance(small, cst.Assign) and made is not None:
            edits.instead[line] = suites.with_comments(_apart(small, *made, line in inside, trains), line)
        elif isinstance(small, cst.Assign) and (taken := _taken_apart(small, module)):
            edits.instead[line] = suites.with_comments(taken, line)
    for call in every(module, cst.Call):
        if (plain := _without_flag(call)) is not call:
            edits.parts[call] = plain
    if edits:
        edits.import_too(module, ["torch", "transformers"])
    return edits


def _made(small: cst.Assign, borrowed: Collection[str], imported: dict[str, str]) -> tuple[cst.Call, str] | None:
    """The call of `from_pretrained` that an assignment is, and the class; None of others."""
    call = unchained(small.value) if len(small.targets) == 1 else small.value
    func = call.func if isinstance(call, cst.Call) else None
    if not isinstance(call, cst.Call) or not isinstance(func, cst.Attribute) or func.attr.value != "from_pretrained":
        return None
    whole = full_name(func.value, imported)
    named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    plain = bool(call.args) and call.args[0].keyword is None and all(arg.keyword is not None for arg in call.args[1:])
    return (call, whole) if whole in borrowed and plain and not named & _OTHERWISE else None


def _apart(small: cst.Assign, call: cst.Call, whole: str, part: bool, trains: bool) -> list[Statement]:
    """The statements that make the model, give it the weights and put it into eval mode. A `part` of another model has
    a name of its own until it is kept, and the mode of that model where a script puts any into train mode."""
    target, cls = small.targets[0].target, cst.ensure_type(call.func, cst.Attribute).value
    given = next((arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "config"), None)
    config = given or call.with_changes(func=nodes.expression("transformers.AutoConfig.from_pretrained"))
    new = nodes.call(cls.deep_clone(), config.deep_clone())
    weights = nodes.call(PRETRAINED, nodes.expression(f'"{whole.rpartition(".")[2]}"'))
    weights = weights.with_changes(args=[*weights.args, *(arg.deep_clone() for arg in call.args)])
    value = cast(Expr, small.value.deep_replace(call, new)) if small.value is not call else new
    path = nodes.dotted(target) or ""
    of_self = part and path.startswith("self.")
    name = nodes.name(path.rpartition(".")[2]) if of_self else target
    made: list[Statement] = [
        nodes.statement("{name} = {value}", name=name, value=value),
        nodes.statement("{name}.load_state_dict({weights})", name=name, weights=weights),
    ]
    if not of_self or not trains:
        made.append(nodes.statement("{name}.eval()", name=name))
    return [*made, nodes.statement("{target} = {name}", target=target, name=name)] if of_self else made


def _without_flag(call: cst.Call) -> cst.Call:
    """A call that does not say whether its result is a dict, which it is here."""
    kept = [arg for arg in call.args if arg.keyword is None or arg.keyword.value != "return_dict"]
    if len(kept) == len(call.args):
        return call
    last = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in kept[-1:]]
    return call.with_changes(args=[*kept[:-1], *last])


def _taken_apart(small: cst.Assign, module: cst.Module) -> list[Statement]:
    """`outputs = bert(x)` and `a, b = outputs[0], outputs[1]` for `a, b = bert(x, return_dict=False)`. Empty for other
    statements."""
    target, call = small.targets[0].target, small.value
    given = call.args if isinstance(call, cst.Call) else ()
    flags = [arg.value for arg in given if arg.keyword is not None and arg.keyword.value == "return_dict"]
    told = any(nodes.is_literal(flag, False) for flag in flags)
    if not told or not isinstance(call, cst.Call) or not isinstance(target, cst.Tuple) or len(small.targets) > 1:
        return []
    around = [one for one in every(module, cst.FunctionDef) if any(small is line for line in every(one, cst.Assign))]
    taken = {one.value for one in every(around[-1] if around else module, cst.Name)}
    names = itertools.chain(["outputs"], map("outputs_{}".format, itertools.count(2)))
    name = next(one for one in names if one not in taken)
    entries = nodes.bare_tuple([nodes.expression(f"{name}[{number}]") for number in range(len(target.elements))])
    return [
        nodes.statement(f"{name} = {{call}}", call=_without_flag(call)),
        cst.SimpleStatementLine([small.with_changes(value=entries)]),
    ]
