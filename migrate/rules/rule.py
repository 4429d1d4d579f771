"""The type of a rule, the registry, and the bound call that a rule sees.

A rule is registered under the torch names that it serves ("torch.exp", "Tensor.exp"), with torch's signature. Its
docstring opens with what is surprising; its `>>>` examples are at once documentation, a text test and a
value-and-gradient test run in both frameworks. An example names its inputs in a comment:

    >>> torch.sum(x, dim=1)  # x: f32[2, 3]
    x.sum(axis=1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import UNKNOWN, Items, Kind, Number, Plain, Tensor
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

REQUIRED = "required"


@dataclass(frozen=True)
class Value:
    """A lowered expression: its node, what is known of it, and whether its channels are last ("last" or "first")."""

    node: Expr
    kind: Kind = UNKNOWN
    layout: str = "first"


@dataclass(frozen=True)
class Parameter:
    name: str
    default: Expr | None = None
    star: bool = False


def signature(text: str) -> tuple[Parameter, ...]:
    """Parses `"input, dim=None, *shape"`; a bare `*` only marks what follows as keyword-only and is left out."""
    import libcst as cst

    function = cst.parse_statement(f"def f({text}): pass")
    assert isinstance(function, cst.FunctionDef)
    params = function.params
    found = [Parameter(p.name.value, p.default) for p in params.params]
    if isinstance(params.star_arg, cst.Param):
        found.append(Parameter(params.star_arg.name.value, star=True))
    found += [Parameter(p.name.value, p.default) for p in params.kwonly_params]
    return tuple(found)


@dataclass
class Call:
    """A torch call with its arguments bound to torch's parameter names. Arguments are lowered already."""

    api: str
    bound: Mapping[str, Value]
    rest: Sequence[Value] = ()
    defaults: Mapping[str, Expr | None] = field(default_factory=dict)
    fresh_key: Callable[[Expr | None], Expr] | None = None
    use_snippet: Callable[[str], None] | None = None
    traced: bool = True  # inside what jit traces, where no shape may depend on data
    differentiable: bool = True  # whether a gradient may be taken of it; of what runs once, as it stands, none is
    hold: Callable[[Expr], Expr] | None = None  # gives a value a name, in a statement before
    beside_nothing: bool = False  # whether one of the arrays may be of shape (0,), which torch joins with any other
    unpacked: bool = False  # whether `rest` is one value behind a star

    def has(self, name: str) -> bool:
        """Whether the argument was written, and not as its own default."""
        if name not in self.bound:
            return False
        default = self.defaults.get(name)
        return default is None or nodes.code(self.bound[name].node) != nodes.code(default)

    def may_be_none(self, name: str) -> bool:
        """Whether an argument that may be left out is a tensor in some runs, and None in others or in all seen here."""
        kind = self.kind(name)
        nothing = kind == Plain("None") or (isinstance(kind, Tensor) and kind.optional)
        return nothing and self.has(name) and nodes.is_literal(self.defaults.get(name), None)

    def value(self, name: str) -> Value:
        if name in self.bound:
            return self.bound[name]
        default = self.defaults.get(name)
        if default is None:
            raise Unsupported("MIG302", f"{self.api} needs the argument {name!r}")
        return Value(default)

    def node(self, name: str) -> Expr:
        return self.value(name).node

    def kind(self, name: str) -> Kind:
        return self.value(name).kind

    def dtype(self) -> Expr:
        """The type that is asked for, or that of the tensor, which no gradient has to do with."""
        if self.has("dtype"):
            return self.node("dtype")
        match self.node("input"):
            case cst.Call(func=func, args=[cst.Arg(value=inner)]) if nodes.dotted(func) == "jax.lax.stop_gradient":
                return nodes.expression("{x}.dtype", x=inner)
        return self.make("{input}.dtype")

    def rank(self, name: str) -> int:
        """How many axes a tensor among the arguments has; -1 where that is not known."""
        kind = self.kind(name)
        return kind.rank if isinstance(kind, Tensor) else -1

    def length(self, name: str, axis: str) -> Expr | None:
        """The length of an axis, as the constructor of a layer writes it; None where that is not known."""
        kind, given = self.kind(name), nodes.literal(self.node(axis))
        if not isinstance(kind, Tensor) or kind.length is None or not isinstance(given, int):
            return None
        known, length = kind.length
        same = given == known or (kind.rank > 0 and (given - known) % kind.rank == 0)
        return nodes.expression(length) if same else None

    def literal(self, name: str) -> object:
        """The Python value of a literal argument; Unsupported for anything else."""
        value = nodes.literal(self.node(name))
        if value is ...:
            raise Unsupported("MIG302", f"{self.api}: {name}={nodes.code(self.node(name))} must be a literal here")
        return value

    def only(self, name: str, *allowed: object) -> None:
        """Declines every value of the argument but the allowed literals."""
        if self.has(name) and not any(nodes.is_literal(self.node(name), value) for value in allowed):
            raise Unsupported("MIG302", f"{self.api}: {name}={nodes.code(self.node(name))} is not supported")

    def name(self, name: str) -> None:
        """Gives an argument that is no plain name or attribute one, since it is to be written more than once."""
        value = self.value(name)
        if nodes.dotted(value.node) is None:
            if self.hold is None:
                raise Unsupported("MIG302", f"{self.api} of an expression that has no name")
            self.bound = {**self.bound, name: replace(value, node=self.hold(value.node))}

    def on_host(self, what: str) -> None:
        """Declines a result whose shape depends on data inside what jit traces."""
        if self.traced:
            raise Unsupported("MIG302", f"{what} has a shape that depends on the data, which jit cannot follow")

    def given(self, *names: str, **renamed: str) -> dict[str, Expr]:
        """The keywords for those arguments that were written: torch's name, or `torch_name="jax_name"`."""
        wanted = {name: name for name in names} | renamed
        return {target: self.node(name) for name, target in wanted.items() if self.has(name)}

    def make(self, template: str, **more: Expr | str | int) -> Expr:
        """The template filled with the bound arguments and `more`."""
        import re

        names = set(re.findall(r"\{(\w+)\}", template))
        filling: dict[str, Expr | str | int] = {name: self.node(name) for name in names if name not in more}
        return nodes.expression(template, **filling, **more)

    def key(self, mode: Expr | None = None) -> Expr:
        """A fresh random key for this draw. mode: what tells whether anything is drawn, `self.training` for example."""
        assert self.fresh_key is not None
        return self.fresh_key(mode)

    def snippet(self, name: str) -> str:
        """Marks a snippet as used; returns its name, for use in a template."""
        assert self.use_snippet is not None
        self.use_snippet(name)
        return name

    def tensors(self, of_several: bool = False) -> list[Expr]:
        """Those given as `*tensors`, which torch also takes in one list.

        of_several: a single value of which nothing is known is such a list.
        """
        import libcst as cst

        given = [value.node for value in self.rest]
        kind = self.rest[0].kind if len(given) == 1 else Tensor()
        if not (self.unpacked or isinstance(kind, Items) or (of_several and not isinstance(kind, Tensor))):
            return given
        if isinstance(given[0], cst.List | cst.Tuple):
            return nodes.elements(given[0])
        return [cst.StarredElement(nodes.parenthesized(given[0]))]

    def shape(self, name: str) -> Expr:
        """The node of a shape given as `*sizes` or as one sequence."""
        if name in self.bound:
            return self.bound[name].node
        if len(self.rest) == 1 and not isinstance(self.rest[0].kind, Number):
            node = self.rest[0].node
            import libcst as cst

            if isinstance(node, cst.List):
                return nodes.tuple_of(nodes.elements(node))
            if not isinstance(node, cst.Integer):
                return node
        return nodes.tuple_of([value.node for value in self.rest])


def as_float(call: Call, name: str) -> Expr:
    """An argument for a function that JAX has of floats alone: what is known to be integers or booleans as floats."""
    kind = call.kind(name)
    whole = isinstance(kind, Tensor) and kind.dtype in ("int", "bool")
    return call.make(f"{{{name}}}.astype(jnp.float32)") if whole else call.node(name)


def power_of_integers(base: Kind, exponent: Kind) -> bool:
    """Whether two tensors may both be of integers: negative exponents give 0 in torch, and any number in JAX."""
    return all(isinstance(kind, Tensor) and kind.dtype in ("int", "") for kind in (base, exponent))


def axes(call: Call, name: str) -> Expr:
    """An argument that names one axis or several, which numpy wants in a tuple, not in a list."""
    import libcst as cst

    node = call.node(name)
    if isinstance(node, cst.List):
        return nodes.tuple_of(nodes.elements(node))
    listed = isinstance(call.kind(name), Items) and not isinstance(node, cst.Tuple)
    return nodes.call("tuple", node) if listed else node


Result = Expr | Value
Function = Callable[[Call], Result]


@dataclass(frozen=True)
class Rule:
    """A registered rule."""

    names: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    function: Function
    elementwise: bool
    dtype: str
    doc: str
    family: str
    draws: bool = False


RULES: dict[str, Rule] = {}


def register(made: Rule) -> None:
    for name in made.names:
        if name in RULES:
            raise ValueError(f"two rules for {name}")
        RULES[name] = made


def rule(
    *names: str, signature: str, elementwise: bool = False, dtype: str = "like", draws: bool = False
) -> Callable[[Function], Function]:
    """Registers the decorated function under torch names.

    elementwise: keeps the layout of its one tensor. dtype of the result: "like" the first argument, "float", "int",
    "bool", or "" where it is not known. A `Value` returned by the function overrides both.
    """
    parse = globals()["signature"]

    def decorate(function: Function) -> Function:
        doc = function.__doc__ or ""
        family = function.__module__.rpartition(".")[2]
        register(Rule(names, parse(signature), function, elementwise, dtype, doc, family, draws))
        return function

    return decorate


def plain(
    names: str,
    parameters: str,
    template: str,
    note: str,
    *examples: str,
    family: str,
    dtype: str = "like",
    elementwise: bool = False,
) -> None:
    """Registers what needs no more than a template. An example is `torch text  # inputs -> text in JAX`."""

    def function(call: Call) -> Expr:
        return call.make(template)

    shown = "".join("    >>> {}\n    {}\n".format(*example.split(" -> ")) for example in examples)
    doc = f"{note}\n\n{shown}"
    register(Rule(tuple(names.split()), signature(parameters), function, elementwise, dtype, doc, family))


def result_kind(made: Rule, bound: Mapping[str, Value]) -> Kind:
    """The kind of a rule's result from its declaration."""
    first = next(iter(bound.values()), None)
    kind = first.kind if first else UNKNOWN
    if not isinstance(kind, Tensor):
        return Tensor(made.dtype if made.dtype != "like" else "")
    rank, length = (kind.rank, kind.length) if made.elementwise else (-1, None)
    if made.dtype != "like":
        return Tensor(made.dtype, rank, length=length)
    return Tensor(kind.dtype, rank, origins=kind.origins, length=length)
