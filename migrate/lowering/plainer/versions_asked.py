"""Attributes of modules that keep whether torch has something:

self.flash = hasattr(torch.nn.functional, "scaled_dot_product_attention")
if not self.flash:
    self.register_buffer("mask", ...)

What is rewritten is there. The input is taken as if each test asked torch itself, which leaves one side of it, and
without what stands behind a side that returns. A class whose buffers somebody asks for stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from migrate.lowering.expressions.torch_asked import asked_of_torch
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.mentions import mentions
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


def with_versions_settled(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project without such attributes, those aside that are named as more than an attribute of `self`
    in the class that sets them."""
    modules = [one.source.module for one in inputs]
    return [one.edited(_edits(one.source.module, modules)) for one in inputs]


def _edits(module: cst.Module, modules: Sequence[cst.Module]) -> Edits:
    edits, imported = Edits(), imported_names(module)
    questions: dict[Expr, Expr] = {}  # what reads an attribute -> what that asks

    def asks(test: Expr) -> bool:
        test = questions.get(test, test)
        return isinstance(test, cst.Call) and asked_of_torch(test, lambda owner: full_name(owner, imported))

    looked_for = {name for one in modules for call in usage.calls(one) if (name := _asked_by_name(call))}
    for node in every(module, cst.ClassDef):
        if looked_for & set(map(_registered, usage.calls(node.body))):
            continue  # what goes with a side is asked for: `hasattr(block.attn, "bias")`
        for line in every(node.body, cst.SimpleStatementLine):
            name, asked = _kept(line)
            if asked is None or not asks(asked):
                continue
            read = [one for one in every(node.body, cst.Attribute) if nodes.dotted(one) == f"self.{name}"]
            once = usage.attributes_assigned(node.body).count(name) == 1
            if once and len(read) == sum(len(mentions(one, name)) for one in modules):
                edits.instead[line] = []
                questions |= {one: asked.deep_clone() for one in read}
    edits.parts |= questions
    for block in every(module, cst.IndentedBlock):
        edits.instead |= {statement: [] for statement in _never_reached(block, asks)}
    return edits


def _asked_by_name(call: cst.Call) -> str:
    """The attribute that `hasattr` asks for, of others than `self`; "" of other calls."""
    asks = nodes.dotted(call.func) == "hasattr" and len(call.args) == 2 and nodes.dotted(call.args[0].value) != "self"
    told = nodes.literal(call.args[1].value) if asks else ""
    return told if isinstance(told, str) else ""


def _registered(call: cst.Call) -> str:
    """The buffer that a call registers; "" of other calls."""
    registers = nodes.dotted(call.func) == "self.register_buffer" and call.args
    told = nodes.literal(call.args[0].value) if registers else ""
    return told if isinstance(told, str) else ""


def _kept(line: Statement) -> tuple[str, cst.Call | None]:
    """The attribute of `self` that a line sets to what a call gives; "" and None of other lines."""
    match suites.alone(line):
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=cst.Call() as asked):
            names = usage.attributes_in(target)
            return (names[0], asked) if nodes.dotted(target) == f"self.{''.join(names)}" else ("", None)
    return "", None


def _never_reached(block: cst.IndentedBlock, holds: Callable[[Expr], bool]) -> list[Statement]:
    """What stands behind a branch that is taken and leaves the block."""
    body = suites.suite_of(block.body)
    for number, statement in enumerate(body):
        if isinstance(statement, cst.If) and holds(statement.test) and suites.exits(suites.sides(statement)[0]):
            return body[number + 1 :]
    return []
