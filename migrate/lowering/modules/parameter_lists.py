"""Lists and dicts of weights: `nn.ParameterList`, `nn.ParameterDict`."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import BoundWeight
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Items, Kind, Never, Tensor, join
from migrate.lowering.expressions.elements import DICT
from migrate.lowering.modules.module_lists import dict_in_lines, list_in_lines
from migrate.lowering.modules.module_weights import ModuleWeights, is_still, without_gradient
from migrate.lowering.plainer.loops_written_out import LoopsWrittenOut
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement

PARAMETERS = "parameters"  # the type of a list of weights that is being filled
_LISTS = ("torch.nn.ParameterList", "torch.nn.ParameterDict")


class ParameterLists(ModuleWeights, LoopsWrittenOut):
    """A plain list or dict of parameters, each of which has the name of the attribute and its number or key."""

    def parameter_list(
        self, facts: ClassFacts, line: cst.SimpleStatementLine, name: str, value: Expr
    ) -> list[Statement] | None:
        """`self.x = nn.ParameterList(...)`; None for anything else."""
        call = value if isinstance(value, cst.Call) else None
        made = self.torch_name(call.func) if call is not None else None
        if call is None or made not in _LISTS:
            return None
        if len(call.args) > 1 or any(arg.star or arg.keyword for arg in call.args):
            raise Unsupported("MIG201", f"{made}: its weights must be written out")
        if name in facts.fields:
            facts.renamed[name] = f"{name}_value"
        given = call.args[0].value if call.args else None
        if made == "torch.nn.ParameterDict":
            return self.of_dict(facts, line, name, given)
        if given is None or (isinstance(given, cst.List) and not given.elements):
            return self.hold(facts, line, name, Value(cst.List([]), Items((), type=PARAMETERS)))
        if isinstance(given, cst.ListComp | cst.GeneratorExp):
            node, kind = self.counted_weights(facts, name, given)
        elif isinstance(given, cst.List | cst.Tuple):
            elements = [
                self.listed_weight(facts, name, nodes.expression(f'"{leaf_of(facts, name)}_{number}"'), str(number), e)
                for number, e in enumerate(nodes.elements(given))
            ]
            node, kind = list_in_lines([node for node, _ in elements]), Items(tuple(k for _, k in elements))
        else:
            raise Unsupported("MIG201", f"nn.ParameterList({nodes.code(given)}): its weights must be written out")
        facts.attributes[name] = facts.seen[name] = kind
        return self.set_list(facts, line, name, node)

    def set_list(self, facts: ClassFacts, line: cst.SimpleStatementLine, name: str, node: Expr) -> list[Statement]:
        """The assignment of the attribute."""
        return suites.assigned(line, nodes.expression(f"self.{leaf_of(facts, name)}"), node)

    def listed_weight(
        self, facts: ClassFacts, name: str, leaf: Expr, key: str, made: Expr, optional: bool = False
    ) -> tuple[Expr, Tensor]:
        """The call of `self.param` for one element, `nn.Parameter(...)` or the tensor itself. key: what the element is
        called in torch."""
        value, still = made, False
        if isinstance(made, cst.Call) and self.torch_name(made.func) == "torch.nn.Parameter":
            value, still = made.args[0].value, is_still(self, made)
        node, lengths, rank = self.made_parameter(leaf, value)
        node = without_gradient(node) if still else node
        path = f"{leaf_of(facts, name)}_{key}"
        optional = optional or bool(self.conditions)
        facts.parameters[f"{name}.{key}"] = BoundWeight(f"{name}.{key}", "params", path, (), lengths, optional, still)
        return node, Tensor("float", rank)

    def counted_weights(
        self, facts: ClassFacts, name: str, given: cst.ListComp | cst.GeneratorExp
    ) -> tuple[Expr, Items]:
        """`[nn.Parameter(torch.randn(n)) for n in sizes]`: the number of each is in its name."""
        loop = given.for_in
        if loop.ifs or loop.inner_for_in is not None:
            raise Unsupported("MIG201", f"nn.ParameterList: `{nodes.code(given)}` is no plain loop")
        inner = self.inner({})
        lowered = inner.comp_for(loop)
        target, iterable, number = lowered.target, lowered.iter, "i"
        plain = isinstance(loop.iter, cst.Call) and nodes.dotted(loop.iter.func) == "range" and len(loop.iter.args) == 1
        if plain and isinstance(target, cst.Name):  # it is the number itself
            number = "i" if target.value == "_" else target.value
            target = nodes.name(number)
        else:
            while number in usage.loads(given) or number in usage.target_names(target):
                number += "_"
            target = nodes.tuple_of([nodes.name(number), target], parentheses=False)
            iterable = nodes.call("enumerate", iterable)
        leaf = cst.parse_expression(f'f"{leaf_of(facts, name)}_{{{number}}}"')
        made, kind = inner.listed_weight(facts, name, leaf, "{i}", given.elt, optional=True)
        return cst.ListComp(made, lowered.with_changes(target=target, iter=iterable)), Items(None, kind)

    def of_dict(
        self, facts: ClassFacts, line: cst.SimpleStatementLine, name: str, given: Expr | None
    ) -> list[Statement]:
        """`nn.ParameterDict({"a": nn.Parameter(...)})`."""
        written = self.entries_of(given) if isinstance(given, cst.DictComp) else None
        given = given if written is None else nodes.dict_of(written)
        entries = given.elements if isinstance(given, cst.Dict) else () if given is None else None
        keys = [nodes.literal(e.key) if isinstance(e, cst.DictElement) else ... for e in entries or ()]
        if entries is None or not all(isinstance(key, str) for key in keys):
            raise Unsupported("MIG201", "an nn.ParameterDict whose keys are not written out")
        made: list[tuple[str, Expr]] = []
        kind: Kind = Never()
        for key, entry in zip(map(str, keys), entries, strict=True):
            leaf = nodes.expression(f'"{leaf_of(facts, name)}_{key}"')
            node, element = self.listed_weight(facts, name, leaf, key, entry.value)
            made.append((key, node))
            kind = join(kind, element)
        facts.attributes[name] = facts.seen[name] = Items(None, kind, DICT)
        return self.set_list(facts, line, name, dict_in_lines(made) if made else cst.Dict([]))

    def appended(self, facts: ClassFacts, name: str, node: cst.Call) -> list[Statement]:
        """`self.x.append(nn.Parameter(...))` in a constructor."""
        local = facts.held[name]
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "append" or len(node.args) != 1:
            raise Unsupported("MIG201", f"{nodes.code(node)}: weights are appended one by one")
        leaf = cst.parse_expression(f'f"{leaf_of(facts, name)}_{{len({local})}}"')
        made, kind = self.listed_weight(facts, name, leaf, "{i}", node.args[0].value, optional=True)
        facts.seen[name] = self.env.kinds[local] = Items(None, kind, PARAMETERS)
        return [cst.SimpleStatementLine([cst.Expr(nodes.call(f"{local}.append", made))])]


def leaf_of(facts: ClassFacts, name: str) -> str:
    """What an attribute is called in the output."""
    return facts.renamed.get(name, name)
