"""Schedules of transformers and diffusers: `get_linear_schedule_with_warmup(optimizer, warmup, steps)`.

Each is torch's `LambdaLR` with a function of the step, and is taken as that. Where their names, or their arguments, are
not known as the file stands, they stay what they are, which is refused for what it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_PACKAGES = ("transformers", "diffusers")
_WARMING = "step / max(1, {warmup}) if step < {warmup} else "
_LINEAR = "max(0.0, ({steps} - step) / max(1, {steps} - {warmup}))"
_COSINE = "max(0.0, 0.5 * (1.0 + math.cos(math.pi * {cycles} * 2.0 * (step - {warmup}) / max(1, {steps} - {warmup}))))"
# name -> the arguments behind the optimizer, and the factor of the rate at a step
_FACTORS = {
    "constant": ((), "1"),
    "constant_with_warmup": (("num_warmup_steps",), _WARMING + "1.0"),
    "linear": (("num_warmup_steps", "num_training_steps"), _WARMING + _LINEAR),
    "cosine": (("num_warmup_steps", "num_training_steps", "num_cycles"), _WARMING + _COSINE),
}
_FUNCTIONS = {
    "get_constant_schedule": "constant",
    "get_constant_schedule_with_warmup": "constant_with_warmup",
    "get_linear_schedule_with_warmup": "linear",
    "get_cosine_schedule_with_warmup": "cosine",
}
_DEFAULTS = {"num_cycles": "0.5"}
_SHORT = {"num_warmup_steps": "warmup", "num_training_steps": "steps", "num_cycles": "cycles"}


def with_plain_schedules(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with torch's schedules in the place of those."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits, imported = Edits(), imported_names(module)
    if not any(whole.partition(".")[0] in _PACKAGES for whole in imported.values()):
        return edits
    stored = usage.stores(suites.bodies(module))
    for call in every(module, cst.Call):
        package, _, name = full_name(call.func, imported).rpartition(".")
        if package.partition(".")[0] not in _PACKAGES:
            continue
        given = _given(call, name)
        made = _schedule(given, stored) if given is not None else None
        if made is not None:
            edits.parts[call] = made
    read = usage.loads(list(edits.parts.values()))
    edits.import_too(module, [name for name in ("math", "torch") if name in read])
    return edits


def _given(call: cst.Call, name: str) -> tuple[str, Mapping[str, Expr]] | None:
    """Which schedule a call makes, and its arguments by their names; None of other calls."""
    named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if any(arg.star for arg in call.args):
        return None
    listed = [arg.value for arg in call.args if arg.keyword is None]
    schedule = _FUNCTIONS.get(name, "")
    order = ["optimizer", *_FACTORS[schedule][0]] if schedule else []
    if name == "get_scheduler":
        order = ["name", "optimizer", "num_warmup_steps", "num_training_steps"]
    if not order or len(listed) > len(order):
        return None
    given = dict(zip(order, listed, strict=False)) | named
    if name == "get_scheduler":
        told = nodes.literal(given.pop("name", None))
        schedule = told if isinstance(told, str) and told in _FACTORS else ""
        wanted = {"optimizer", *(_FACTORS[schedule][0] if schedule else ())}
        given = {key: value for key, value in given.items() if key in wanted or key not in _SHORT}
    return (schedule, given) if schedule else None


def _schedule(found: tuple[str, Mapping[str, Expr]], stored: Sequence[str]) -> Expr | None:
    """torch's schedule; None where an argument is missing, or may be another one by the time that a step asks."""
    schedule, given = found
    names, factor = _FACTORS[schedule]
    values = {name: given.get(name) or _default(name) for name in names}
    known = [value for value in values.values() if value is not None]
    if set(given) - {"optimizer", *names} or "optimizer" not in given or len(known) < len(names):
        return None
    if any(stored.count(name) > 1 for value in known for name in usage.loads(value)):
        return None
    warmup = values.get("num_warmup_steps")
    if warmup is not None and nodes.is_literal(warmup, 0):
        factor = factor.replace(_WARMING, "").replace("step - {warmup}", "step").replace(" - {warmup}", "")
    filled = {_SHORT[name]: value for name, value in values.items() if value is not None}
    made = nodes.expression(factor, **filled)
    step = cst.Lambda(cst.Parameters([cst.Param(cst.Name("step" if "step" in usage.loads(made) else "_"))]), made)
    return nodes.call("torch.optim.lr_scheduler.LambdaLR", given["optimizer"], step)


def _default(name: str) -> Expr | None:
    return nodes.expression(_DEFAULTS[name]) if name in _DEFAULTS else None
