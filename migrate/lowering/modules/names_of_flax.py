"""Names that every Flax module has, and torch's modules have not: a class that binds one means something else by it.

An argument of the constructor that nothing but the class and its calls name gets an underscore, as Python's own style
has it (`name_`); the rest is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

OWN = {
    "bind", "clone", "copy", "get_variable", "has_rng", "has_variable", "init", "init_with_output", "is_initializing",
    "is_mutable_collection", "lazy_init", "make_rng", "module_paths", "name", "param", "parent", "path", "perturb",
    "put_variable", "scope", "setup", "sow", "tabulate", "unbind", "variable", "variables",
}  # fmt: skip


def refuse_names_of_flax(facts: ClassFacts, methods: Mapping[str, cst.FunctionDef], left_out: frozenset[str]) -> None:
    """Declines a class with an argument, a method or an attribute of such a name. `left_out`: methods that the output
    has not."""
    init = methods.get("__init__")
    stored = usage.attributes_set(init) if init is not None else set[str]()
    taken = ({*methods} - left_out | {*facts.fields} | stored) & OWN
    if taken:
        raise Unsupported("MIG201", f"every Flax module has a `{min(taken)}`: that of {facts.name} needs another name")


def other_names(node: cst.ClassDef) -> dict[str, str]:
    """The arguments of a constructor that get another name: those that it never binds anew, and that no attribute of
    the same name holds but as they are."""
    init = next((one for one in suites.suite_of(node.body.body) if _is_init(one)), None)
    if not isinstance(init, cst.FunctionDef) or init.params.star_kwarg is not None:
        return {}
    names = {p.name.value for p in (*init.params.params[1:], *init.params.kwonly_params)} & OWN
    kept = {
        nodes.dotted(one.targets[0].target): nodes.dotted(one.value)
        for one in every(init, cst.Assign)
        if len(one.targets) == 1
    }
    set_otherwise = {name for name in usage.attributes_set(node) if kept.get(f"self.{name}") != name}
    bound = {*usage.stores(init.body), *set_otherwise, *(one.value for one in every(node, cst.Name))}
    free = {name: f"{name}_" for name in names - set(usage.stores(init.body)) - set_otherwise}
    return {name: other for name, other in sorted(free.items()) if other not in bound}


def with_other_names(node: cst.ClassDef, given: dict[str, str]) -> cst.ClassDef:
    """A class whose constructor takes such arguments by their other names, as do the attributes that keep them."""

    def renamed(one: Statement) -> Statement:
        if not _is_init(one) or not isinstance(one, cst.FunctionDef):
            return one
        inside = nodes.substituted(one.body, {name: nodes.name(other) for name, other in given.items()})
        return one.with_changes(params=nodes.visited(one.params, _Parameters(given)), body=inside)

    body = [renamed(one) for one in suites.suite_of(node.body.body)]
    made = node.with_changes(body=suites.block_of(node.body, body))
    return nodes.visited(made, _Attributes(given))


def called_so(node: cst.Call, given: Mapping[str, str]) -> cst.Call:
    """A call of such a class, which names its arguments as the class does. Raises Unsupported where it is not seen
    which ones it names."""
    if given and any(arg.star == "**" for arg in node.args):
        raise Unsupported("MIG201", f"{nodes.code(node)}: every Flax module has a `{min(given)}`; name the arguments")
    keywords = [given.get(arg.keyword.value) if arg.keyword is not None else None for arg in node.args]
    if not any(keywords):
        return node
    args = [arg.with_changes(keyword=cst.Name(k)) if k else arg for arg, k in zip(node.args, keywords, strict=True)]
    return node.with_changes(args=args)


def _is_init(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.FunctionDef) and node.name.value == "__init__"


class _Parameters(cst.CSTTransformer):
    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__()
        self.given = given

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        other = self.given.get(updated_node.name.value)
        return updated_node.with_changes(name=cst.Name(other)) if other else updated_node


class _Attributes(cst.CSTTransformer):
    """Renames attributes of `self`."""

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__()
        self.given = given

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        other = self.given.get(updated_node.attr.value) if nodes.dotted(updated_node.value) == "self" else None
        return updated_node.with_changes(attr=cst.Name(other)) if other else updated_node
