"""Calls that change their input in place, `F.relu(x, inplace=True)` and modules that begin so: torch goes on with what
they returned under every name that the input has."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import LayerNode, changes_input, first_layer
from migrate.known.kinds import Kind, Module
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.statements.liveness import Liveness
from migrate.lowering.unit import known
from migrate.rules.catalogue import RULES
from migrate.syntax import nodes, suites, usage
from migrate.syntax.walking import every

_TWICE_AS_ONCE = {"torch.nn.ReLU": "nn.relu", "torch.nn.ReLU6": "nn.relu6"}


class ChangedInputs(Liveness):
    """What is read after it was changed."""

    def changed_input(self, node: cst.CSTNode) -> str:
        """The name of the tensor that a call changes; "" where it changes none that has a name."""
        if not isinstance(node, cst.Call) or not node.args or not isinstance(node.args[0].value, cst.Name):
            return ""
        rule = RULES.get(self.torch_name(node.func) or "")
        if rule is not None:
            parameters = [parameter.name for parameter in rule.parameters]
            names = argument_names(node.args, parameters)
            given = dict(zip(names, node.args, strict=True)).get("inplace") if "inplace" in parameters else None
            changes = given is not None and nodes.literal(given.value) is True
        else:
            kind = self.own_module(node.func)
            changes = isinstance(kind, Module) and any(map(changes_input, kind.options))
        return node.args[0].value.value if changes else ""

    def own_module(self, func: cst.BaseExpression) -> Kind:
        """What an attribute of this module is, `self.block`, or a plain name."""
        facts = self.script.classes.get(self.cls)
        if facts is None or not isinstance(func, cst.Attribute) or nodes.dotted(func.value) != "self":
            return self.kind_of(func)
        return known(facts.seen.get(func.attr.value, facts.attributes.get(func.attr.value)))

    def with_input_bound(self, small: cst.BaseSmallStatement) -> Sequence[cst.BaseSmallStatement]:
        """`y = F.relu(x, inplace=True)` as `x = F.relu(x, inplace=True)` and `y = x`, where x is read later."""
        value = small.value if isinstance(small, cst.Assign | cst.Expr) else None
        name = self.changed_input(value) if value is not None else ""
        if not name or not isinstance(value, cst.Call) or not self.live(name) or not self.returns_input(value):
            return ()
        bound = cst.Assign([cst.AssignTarget(cst.Name(name))], value)
        if isinstance(small, cst.Expr):
            return (bound,)
        if isinstance(small, cst.Assign) and name not in usage.stores(small):
            return bound, small.with_changes(value=cst.Name(name))
        return ()

    def returns_input(self, node: cst.Call) -> bool:
        """Whether a call that changes its input returns just that, as a layer does and not what begins with one."""
        kind = self.own_module(node.func)
        return not isinstance(kind, Module) or all(isinstance(option, LayerNode) for option in kind.options)

    def refuse_changed_input(self, node: cst.Call) -> None:
        """Declines a call that changes what is read again, in the same statement, later, or under another name."""
        name = self.changed_input(node)
        if not name:
            return
        if self.facts is not None and name in self.facts.kept and name in self.env.shared:
            raise Unsupported("MIG303", f"{name} is changed in place by {nodes.code(node)}, and read again by a caller")
        again = name not in self.rebound and self.live(name)
        unnamed = not any(map(self.live, self.other_names(name)))
        alone = self.reads.count(name) == 1 and unnamed
        function = self.changes_once(node)
        beside = unnamed and not alone and _reads_it_changed(self.at_hand(), node, name)
        if ((again and alone) or beside) and function and not (self.nested or self.conditional):
            self.before.append(nodes.statement(f"{name} = {function}({name})"))
        elif again or not alone:
            raise Unsupported("MIG303", f"{name} is changed in place by {nodes.code(node)}, and read again")

    def at_hand(self) -> cst.CSTNode | None:
        """What the simple statement at hand evaluates; None of others."""
        block = self.blocks[-1] if self.blocks else None
        small = suites.alone(block.statements[block.index]) if block is not None else None
        return small.value if isinstance(small, cst.Assign | cst.Return | cst.Expr) else None

    def changes_once(self, node: cst.Call) -> str:
        """The function that a module begins with, where doing it twice is doing it once; "" for others."""
        kind = self.own_module(node.func)
        begun = {first_layer(option).torch for option in kind.options} if isinstance(kind, Module) else set()
        return _TWICE_AS_ONCE.get(begun.pop(), "") if len(begun) == 1 else ""

    def other_names(self, name: str) -> list[str]:
        """What else the tensor of a name is called, `identity = x`, until x is bound again."""
        if name not in self.env.shared:
            return []
        return [one for one, meant in self.env.definitions.items() if nodes.dotted(meant) == name]


def _reads_it_changed(evaluated: cst.CSTNode | None, call: cst.Call, name: str) -> bool:
    """Whether all else that an expression reads of a name is read once a call has changed it: what stands behind the
    call, and the other operand of `x + self.block(x)`, which is an object and no value when the call begins."""
    calls = [one for one in every(evaluated, cst.Call) if nodes.code(one) == nodes.code(call)] if evaluated else []
    if evaluated is None or len(calls) != 1:
        return False
    inside = {id(one) for one in every(calls[0], cst.Name)}
    operands = set[int]()
    for operation in every(evaluated, cst.BinaryOperation):
        sides = (operation.left, operation.right)
        for one, other in (sides, sides[::-1]):
            operands |= {id(one)} if any(each is calls[0] for each in every(other, cst.Call)) else set()
    begun = False
    for one in every(evaluated, cst.Name):
        begun |= id(one) in inside
        if one.value == name and id(one) not in inside | operands and not begun:
            return False
    return True
