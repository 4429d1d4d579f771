"""Arguments: lowered as they are, as jax arrays, or bound to torch's parameter names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts, merge
from migrate.known.kinds import VANISHING, Device, DType, Items, Kind, Plain, RunningOptions, Tensor
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.elements import KEY_OF_ITS_OWN, kinds_in
from migrate.lowering.expressions.packed_elements import refuse_rows
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.state import StateAccess
from migrate.rules.rule import Call, Parameter, Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr


def on_host(args: Sequence[cst.Arg], values: Sequence[Value]) -> list[Value]:
    """Arguments of what another package has: a `device=` is torch's there, and the CPU, from where arrays enter JAX."""
    named = [arg.keyword is not None and arg.keyword.value == "device" for arg in args]
    cpu = Value(nodes.expression('"cpu"'), Plain("str"))
    pairs = zip(named, values, strict=True)
    return [cpu if name and isinstance(value.kind, Device) else value for name, value in pairs]


class Arguments(StateAccess):
    """Lowering of arguments."""

    def plain_args(self, args: Sequence[cst.Arg]) -> list[cst.Arg]:
        """Arguments lowered as they are."""
        return placed(args, self.plain_values(args))

    def plain_values(self, args: Sequence[cst.Arg], outside: bool = False) -> list[Value]:
        """Likewise, with what they are. `outside`: another package takes them."""
        values = [self.usable(self.expr(arg.value)) for arg in args]
        values = on_host(args, values) if outside else values
        for arg, value in zip(args, values, strict=True):
            self.use(arg.value, value)
            refuse_rows(arg.value, value)
        return values

    def torch_args(self, args: Sequence[cst.Arg]) -> list[cst.Arg]:
        """The arguments of a call that stays torch: dtypes stay torch's, devices go with their variables."""
        made = []
        for arg in args:
            value = self.expr(arg.value)
            if isinstance(value.kind, VANISHING):
                continue
            stays = isinstance(arg.value, cst.Lambda) or any(isinstance(part, DType) for part in kinds_in(value.kind))
            made.append(arg if stays else arg.with_changes(value=layouts.first(value)))
        return made

    def array_args(self, args: Sequence[cst.Arg]) -> list[cst.Arg]:
        """Arguments that JAX code takes; devices are left out."""
        values = [(arg, self.array(arg.value)) for arg in args]
        return [arg.with_changes(value=layouts.first(v)) for arg, v in values if not isinstance(v.kind, VANISHING)]

    def note_tensors_listed(self, kind: Kind) -> None:
        """Remembers that the host keeps tensors in a list or a tuple, which may have axes."""
        listed = kinds_in(kind) if isinstance(kind, Items) and not self.under_jit else []
        self.script.tensors_listed |= any(isinstance(one, Tensor) and one.rank != 0 for one in listed)

    def with_numbers_of_unknown(self, data: Expr, kind: Kind) -> Expr:
        """What torch makes a tensor of. Where it is a list of what is not known, some of which may be tensors that the
        host has kept, these count as the one number that they have."""
        if not isinstance(kind, Items) or kind.type not in ("list", "tuple") or self.under_jit:
            return data
        unknown = self.script.tensors_listed and any(type(one) is Kind for one in kinds_in(kind))
        return with_snippets(self, nodes.call("with_numbers", data), ["with_numbers"]) if unknown else data

    def pass_kinds(
        self, facts: FunctionFacts, args: Sequence[cst.Arg], values: Sequence[Value], upwards: bool = False
    ) -> None:
        """Notes what the parameters of a method are called with: after `self`, which a static method has not.
        `upwards`: by a method that overrides it, which is called with other things itself."""
        names = facts.parameter_names[0 if "staticmethod" in facts.decorators else 1 :]
        given = argument_names(args, names)
        if not any(arg.star for arg in args):
            nothing = {name for name, default in facts.defaults.items() if nodes.is_literal(default, None)}
            facts.found_omitted |= nothing - set(given)
        for name, arg, value in zip(given, args, values, strict=True):
            if name:
                merge(facts.found_handed_up if upwards else facts.found_params, name, value.kind)
                path = nodes.dotted(arg.value)
                if path is not None and not isinstance(value.kind, Tensor):
                    facts.given_paths.add((self.scope, path, name))
                facts.found_given[name] = facts.found_given.get(name, True) and self.gives(arg.value)

    def bind_call(
        self,
        api: str,
        parameters: Sequence[Parameter],
        args: Sequence[cst.Arg],
        receiver: Value | None = None,
        keep_layout: bool = False,
    ) -> Call:
        """Binds lowered arguments to torch's parameter names; Unsupported where they do not fit."""
        bound: dict[str, Value] = {}
        rest: list[Value] = []
        positional: list[Value] = [receiver] if receiver is not None else []
        unpacked: set[int] = set()
        for arg in args:
            if arg.star == "*":
                value = self.expr(arg.value)
                star = next((p for p in parameters if p.star), None)
                if star is None and isinstance(value.kind, Items) and value.kind.items and not self.nested:
                    plain = isinstance(value.node, cst.Name) or (self.context == "setup" and _only_reckons(value.node))
                    whole = value.node if plain else self.held(value.node, "outputs")
                    parts = enumerate(value.kind.items)
                    positional += [Value(nodes.expression(f"{{x}}[{i}]", x=whole), kind) for i, kind in parts]
                    continue
                if star is None:
                    raise Unsupported("MIG302", f"{api}: *{nodes.code(arg.value)} cannot be followed")
                positional.append(value)
                unpacked.add(id(value))
                continue
            if arg.star == "**":
                if isinstance(self.kind_of(arg.value), RunningOptions):
                    continue
                raise Unsupported("MIG302", f"{api}: **{nodes.code(arg.value)} cannot be followed")
            value = self.expr(arg.value)
            if arg.keyword is not None:
                bound[_modern(arg.keyword.value, parameters)] = value
            else:
                positional.append(value)
        names = iter(parameters)
        for number, value in enumerate(positional):
            parameter = next(names, None)
            if parameter is None:
                raise Unsupported("MIG302", f"{api} takes {len(parameters)} arguments, here are {len(positional)}")
            if parameter.star:
                rest = positional[number:]
                if len(rest) > 1:  # x.view(n, *shape)
                    rest = [_starred(value) if id(value) in unpacked else value for value in rest]
                break
            bound[parameter.name] = value
        unknown = set(bound) - {parameter.name for parameter in parameters}
        if unknown:
            raise Unsupported("MIG302", f"{api} has no argument {', '.join(sorted(unknown))}")
        bound = {p.name: bound[p.name] for p in parameters if p.name in bound}  # a keyword may be written first
        if not keep_layout:
            bound = {name: at_first(value) for name, value in bound.items()}
            rest = [at_first(value) for value in rest]
        generator = bound.get("generator")
        key = self.key_where
        if generator is not None and generator.kind == KEY_OF_ITS_OWN:
            del bound["generator"]
            key = partial(self.split_off, nodes.code(generator.node))
        return Call(
            api,
            bound,
            rest,
            {parameter.name: parameter.default for parameter in parameters},
            key,
            self.unit.use_snippet,
            self.context not in HOST_CONTEXTS or self.under_jit,
            differentiable=(self.context != "module" or self.nested) and not self.detached,
            unpacked=len(rest) == 1 and id(rest[0]) in unpacked,
        )


def _starred(value: Value) -> Value:
    return replace(value, node=cst.StarredElement(nodes.parenthesized(layouts.first(value))))


def at_first(value: Value) -> Value:
    """A value with its channels first."""
    return Value(layouts.first(value), value.kind) if value.layout == "last" else value


def placed(args: Sequence[cst.Arg], values: Sequence[Value]) -> list[cst.Arg]:
    """Arguments with their lowered values, channels first."""
    return [arg.with_changes(value=layouts.first(value)) for arg, value in zip(args, values, strict=True)]


def _only_reckons(node: Expr) -> bool:
    """Whether an expression is a call that is given nothing but names and numbers: it may as well be made twice."""
    return isinstance(node, cst.Call) and not any(usage.calls(arg.value) for arg in node.args)


def argument_names(args: Sequence[cst.Arg], parameters: Sequence[str]) -> list[str]:
    """The parameter that each argument is for; "" where a star hides it or there is none."""
    found = []
    hidden = False  # after `*args` it is not known which comes next
    for number, arg in enumerate(args):
        hidden = hidden or arg.star == "*"
        if arg.keyword is not None:
            found.append(arg.keyword.value)
        else:
            found.append(parameters[number] if number < len(parameters) and not (hidden or arg.star) else "")
    return found


def _modern(keyword: str, parameters: Sequence[Parameter]) -> str:
    """torch also takes numpy's names for some arguments."""
    names = {parameter.name for parameter in parameters}
    if keyword in names:
        return keyword
    synonyms = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "self": "input"}
    return synonyms.get(keyword, keyword) if synonyms.get(keyword) in names else keyword
