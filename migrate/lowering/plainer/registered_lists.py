"""Plain lists of modules whose elements a loop registers right away, under names of its own:

    self.heads = [Head(size) for _ in range(count)]
    for i, head in enumerate(self.heads):
        self.add_module(f"head_{i}", head)

They are read as an nn.ModuleList, whose elements have those names in torch.
"""

from __future__ import annotations

import itertools

import libcst as cst

from migrate.syntax import names_written, nodes, suites, usage
from migrate.syntax.nodes import Expr

_ADDING = ("self.add_module", "self.register_module")


def registered_lists(node: cst.ClassDef) -> tuple[dict[cst.CSTNode, Expr | cst.RemovalSentinel], dict[str, str]]:
    """What stands for such lists of a class and for their loops; the attributes, with the pattern of their names."""
    instead: dict[cst.CSTNode, Expr | cst.RemovalSentinel] = {}
    named: dict[str, str] = {}
    base = node.bases[0].value if node.bases else None
    methods = [one for one in suites.suite_of(node.body.body) if isinstance(one, cst.FunctionDef)]
    init = next((one for one in methods if one.name.value == "__init__"), None)
    if not isinstance(base, cst.Attribute) or base.attr.value != "Module" or init is None:
        return instead, named
    body = suites.suite_of(init.body.body)
    assigned = usage.attributes_assigned(node)
    for line, loop in itertools.pairwise(body):
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if not isinstance(small, cst.Assign) or len(small.targets) > 1 or not isinstance(loop, cst.For):
            continue
        path = nodes.dotted(small.targets[0].target) or ""
        attribute = path.removeprefix("self.")
        pattern = _names_in(loop, path)
        if pattern and assigned.count(attribute) == 1 and isinstance(small.value, cst.List | cst.ListComp):
            made = base.with_changes(attr=cst.Name("ModuleList"))
            instead |= {small.value: nodes.call(made, small.value), loop: cst.RemoveFromParent()}
            named[attribute] = pattern
    return instead, named


def _names_in(loop: cst.For, path: str) -> str | None:
    """The names that a loop over the elements of a list, and nothing but that, registers them by, with {} for their
    numbers; None for any other loop."""
    match loop:
        case cst.For(
            target=cst.Tuple(
                elements=[cst.Element(value=cst.Name(value=number)), cst.Element(value=cst.Name(value=element))]
            ),
            iter=cst.Call(func=cst.Name(value="enumerate"), args=[cst.Arg(value=over, keyword=None)]),
            orelse=None,
        ) if nodes.dotted(over) == path:
            body = suites.suite_of(loop.body.body)
        case _:
            return None
    match body:
        case [cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call(func=func, args=[name, value]))])]:
            registers = nodes.dotted(func) in _ADDING and nodes.dotted(value.value) == element
        case _:
            return None
    pattern = names_written.pattern(name.value)
    return pattern if registers and pattern and _counts(name.value, number, pattern) else None


def _counts(name: Expr, number: str, pattern: str) -> bool:
    """Whether a name has the number of the element itself, not one more, where the pattern has {}."""
    return all(
        names_written.text(nodes.substituted(name, {number: cst.Integer(str(one))})) == pattern.format(one)
        for one in (0, 7)
    )
