"""Generators of random numbers that a script makes for itself: `g = torch.Generator().manual_seed(0)`.

One that does nothing but draw where it is made is a key of its own. One that also shuffles and splits data sets, or
goes elsewhere, stays torch's.
"""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Host
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.expressions.elements import KEY_OF_ITS_OWN
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every

_SEED = "manual_seed"


class Generators(Arguments):
    """`torch.Generator`, and what seeds one."""

    def torch_Generator(self, node: cst.Call) -> Value:
        """A key where it only draws; a bare generator has a seed that is always the same."""
        if self.only_draws():
            return Value(nodes.expression("jax.random.key(0)"), KEY_OF_ITS_OWN)
        return Value(node.with_changes(args=[]), Host("generator"))

    def only_draws(self) -> bool:
        """Whether the statement at hand gives a generator a name that nothing but draws, seeds and other generators
        use, all of them in this scope and none of them where jit traces."""
        statement = self.blocks[-1].statements[self.blocks[-1].index] if self.blocks else None
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if not isinstance(small, cst.Assign) or len(small.targets) != 1 or self.nested or self.under_jit:
            return False
        target = small.targets[0].target
        if not isinstance(target, cst.Name) or self.context not in HOST_CONTEXTS:
            return False
        body = cst.Module(self.blocks[0].statements)
        told = sum(self.draws_from(call, target.value) for call in usage.calls(body))
        inner = every(body, (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.ListComp, cst.GeneratorExp, cst.DictComp))
        if any(target.value in usage.loads(each) for each in inner):
            return False
        bound = [each.value for each in every(body, cst.Assign) if target.value in usage.stores(each)]
        return told == usage.loads(body).count(target.value) and all(map(self.makes_generator, bound))

    def makes_generator(self, node: cst.BaseExpression) -> bool:
        """`torch.Generator()`, seeded or not."""
        if not isinstance(node, cst.Call):
            return False
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == _SEED:
            return self.makes_generator(node.func.value)
        return self.torch_name(node.func) == "torch.Generator"

    def draws_from(self, call: cst.Call, name: str) -> bool:
        """Whether a call draws from the generator of a name, or seeds it."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == _SEED:
            return nodes.dotted(call.func.value) == name
        rule = RULES.get(self.torch_name(call.func) or "")
        given = [nodes.dotted(arg.value) for arg in call.args if arg.keyword and arg.keyword.value == "generator"]
        return rule is not None and rule.draws and given == [name]

    def generator_method(self, node: cst.Call, method: str) -> Value | None:
        """`torch.Generator().manual_seed(0)`; None for other methods."""
        seed = node.args[0].value if method == _SEED and len(node.args) == 1 else None
        return None if seed is None else Value(nodes.call("jax.random.key", self.node(seed)), KEY_OF_ITS_OWN)
