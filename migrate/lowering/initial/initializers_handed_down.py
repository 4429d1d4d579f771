"""Initial weights that a class asks for in modules further inside, where there are others of their class.

`for block in self.decoder.blocks: nn.init.normal_(block.attention.in_proj_weight, std=...)`: the class of the blocks
takes the initialiser as a field, of which the default is torch's, and so does every class on the way to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Kind, ModuleClass
from migrate.known.script import classes_in
from migrate.lowering.initial.host_initializers import HostInitializers
from migrate.lowering.initial.initializers_of_flax import goes_on, outputs_first
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.targets import linen


@dataclass(frozen=True)
class Way:
    """Where a module is: the class whose constructor makes it, its path there ("self" for the module itself), what it
    is, and through which modules of the user's: class and path."""

    owner: ClassFacts
    path: str
    kind: Kind
    through: tuple[tuple[ClassFacts, str], ...] = ()


class HandedDown(HostInitializers):
    """Fields for initialisers, and what is given for them."""

    def hand_down(self, way: Way, path: str, made: Expr, node: cst.CSTNode) -> None:
        """Notes the initialiser of a weight, in the words of this class, as an argument of the constructors that lead
        to it."""
        self.hand_on(way, path, self.in_own_terms(made), node)

    def hand_on(self, way: Way, path: str, given: Expr | None, node: cst.CSTNode) -> None:
        """The same of one in terms of the fields of the class that the way starts from."""
        refused = f"`{nodes.code(node)}`: the weights of one of several modules of {way.owner.name}"
        default = linen.initializer_default(way.owner.askable_as.get(path, ""))
        children = [*(facts for facts, _ in way.through[1:]), way.owner]
        places = [_place(*step, child) for step, child in zip(way.through, children, strict=True)]
        plain = not any(c.bases or c.made_by_value or self.script.is_base(c.name) for c in children)
        if default is None or given is None or None in places or not plain or goes_on(given):
            raise Unsupported("MIG204", refused)
        given = outputs_first(given) if way.owner.askable.get(path) else given
        name = f"{path.removeprefix('self.').removesuffix('weight').rstrip('_.').replace('.', '_')}_init"
        way.owner.init_paths[path] = name
        for (parent, attribute), child, place in reversed(list(zip(way.through, children, places, strict=True))):
            child.init_fields[name] = ("nn.initializers.Initializer", default)
            outer = f"{attribute.removeprefix('self.').replace('.', '_')}_{name}"
            value = given if parent is way.through[0][0] else nodes.expression(f"self.{outer}")
            parent.passed.setdefault((child.name, place or ""), {})[name] = value
            name = outer

    def in_own_terms(self, made: Expr) -> Expr | None:
        """An expression in terms of the fields of this class, as its constructor has them; None where it is none."""
        facts, method = self.script.classes[self.cls], self.scope.rpartition(".")[2]
        meant = {name: self.node(self.meaning(name)) for name in usage.loads(made) if name in self.env.definitions}
        made = nodes.visited(nodes.substituted(made, meant), _Given(facts))
        same = set(facts.fields) - facts.rebinds if method == "__init__" else ()
        made = nodes.substituted(made, {name: nodes.expression(f"self.{name}") for name in same})
        own = self.script.functions.get(self.scope)
        local = (set(usage.stores(own.node.body)) if own is not None else set()) | facts.rebinds
        return None if (set(usage.loads(made)) & local) or self.reads_parts(facts, made) else made

    def settled_field(self, tests: Sequence[Expr]) -> str:
        """The argument that conditions come down to, where the constructor binds it anew, `if flag is None: flag = 1`,
        before it makes anything, so that all it makes can ask its variable; "" where they do not."""
        facts = self.script.classes[self.cls]
        name = (nodes.dotted(tests[0]) or "") if len(tests) == 1 else ""
        init = facts.method("__init__")
        if name not in facts.rebinds or init is None or facts.built or not self.scope.endswith(".__init__"):
            return ""
        body = suites.suite_of(init.body.body)
        last = max((n for n, one in enumerate(body) if name in usage.stores(one)), default=len(body))
        before = body[: last + 1]
        bound = {own for one in before for own in (*usage.stores(one), *usage.attributes_set(one))}
        makes = any(self.is_maker(call.func) for one in before for call in usage.calls(one))
        return name if bound <= set(facts.fields) and not makes else ""

    def is_maker(self, func: Expr) -> bool:
        """Whether a call of an expression makes a layer, or a module of the user's."""
        return (self.torch_name(func) or "").startswith("torch.nn.") or isinstance(self.kind_of(func), ModuleClass)

    def meaning(self, name: str) -> Expr:
        """What a name of this method stands for, without other names of the sort."""
        definitions, made = self.env.definitions, self.env.definitions[name]
        for _ in definitions:
            made = nodes.substituted(made, {n: definitions[n] for n in usage.loads(made) if n in definitions})
        return made

    @staticmethod
    def reads_parts(facts: ClassFacts, made: Expr) -> bool:
        """Whether an expression reads an attribute of `self` that is no field."""
        return bool(set(usage.attributes_of_self(made)) - set(facts.fields))


def _place(parent: ClassFacts, attribute: str, child: ClassFacts) -> str | None:
    """Which modules of a class are those of an attribute: "" for all that the parent makes, the path of one that is
    made for it alone, None where they cannot be told apart."""
    holders = [name for name, held in parent.children.items() if child.name in classes_in(held)]
    if len(holders) == 1:
        return ""
    return attribute if attribute in parent.arguments else None


class _Given(cst.CSTTransformer):
    """What a submodule was given, in place of its attribute of that name: `self.encoder.width`."""

    def __init__(self, facts: ClassFacts) -> None:
        super().__init__()
        self.facts = facts

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        given = self.facts.arguments.get(nodes.dotted(original_node.value) or "", {}).get(original_node.attr.value)
        return updated_node if given is None else nodes.parenthesized(given.deep_clone())
