"""Forward passes between `backward()` and the step: `g_loss.backward(); fake = generator(z); optimizer.step()`.

They go through the weights of before the step, as they do ahead of `backward()`, which changes nothing but gradients.
The input is taken as if they stood there, where they belong to the step that jit traces.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input, Lowered
from migrate.lowering.updates.region import has_host_effects, method_call_of
from migrate.syntax import suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every


def with_passes_before_backward(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with such passes ahead of `backward()`; None where there are none that can be."""
    between = lowered[0].script.passes_between
    if not between:
        return None
    made = [one.edited(_edits(one.source.module, between)) for one in inputs]
    return made if any(new is not old for new, old in zip(made, inputs, strict=True)) else None


def _edits(module: cst.Module, between: set[int]) -> Edits:
    edits = Edits()
    for block in every(module, cst.BaseSuite):
        suite = suites.suite_of(block.body)
        number = next((at for at, one in enumerate(suite) if id(one) in between), None)
        if number is None:
            continue
        backward = next((at for at in range(number, -1, -1) if method_call_of(suite[at], "backward")), None)
        moving = [one for one in suite[number:] if id(one) in between]
        if backward is not None and _may_move(suite, backward, moving):
            edits.ahead[suite[backward]] = moving
            edits.instead |= {one: [] for one in moving}
    return edits


def _may_move(suite: Sequence[Statement], backward: int, moving: Sequence[Statement]) -> bool:
    """Whether nothing tells some statements ahead of `backward()` from where they are."""
    last = max(number for number, one in enumerate(suite) if one in moving)
    passed = [one for one in suite[backward : last + 1] if one not in moving]
    changed = {name for one in passed for name in usage.changes(one)}
    bound = {name for one in moving for name in usage.changes(one)}
    plain = all(isinstance(suites.alone(one), cst.Assign) and not has_host_effects(one) for one in moving)
    apart = not changed & set(usage.loads(moving)) and not bound & (changed | set(usage.loads(passed)))
    gradients = any(one.attr.value == "grad" for line in moving for one in every(line, cst.Attribute))
    return plain and apart and not gradients
