"""Module classes of which the forward pass keeps something on its object from one call to the next, `self.hidden`: as
they read with that as an argument, and as a result beside the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.lowering.plainer.body_at_call import INNER, given_to
from migrate.lowering.plainer.object_sites import made_by
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_MODULES = ("nn.Module", "torch.nn.Module", "Module")


@dataclass
class KeptState:
    """Such a class, with the names of its `states`. `resets`: the methods that only set them; `starts`: what the
    constructor sets them to, with the statements that do."""

    node: cst.ClassDef
    init: cst.FunctionDef
    forward: cst.FunctionDef
    states: list[str]
    resets: dict[str, cst.FunctionDef]
    starts: dict[str, tuple[Statement, Expr]] = field(default_factory=dict)

    @property
    def required(self) -> int:
        """How many arguments every call of the forward pass gives."""
        return sum(one.default is None for one in self.forward.params.params[1:])

    def with_arguments(self, names: Mapping[str, str]) -> cst.FunctionDef:
        """The forward pass with the states as arguments, before those that may be left out, and as results."""
        params = list(self.forward.params.params)
        own = bare_names(self.forward)
        local = {state: usage.unused_name(names[state], own) for state in self.states}
        at = next((n for n, one in enumerate(params) if one.default is not None), len(params))
        params[at:at] = [cst.Param(cst.Name(local[state])) for state in self.states]
        body = nodes.visited(self.forward.body, _Returning(local))
        return self.forward.with_changes(
            params=self.forward.params.with_changes(params=nodes.separated(params)), body=body
        )

    def reset_by(self, call: cst.Call) -> list[tuple[str, Expr]] | None:
        """What a call of one of the methods that only set states sets them to; None of other calls."""
        method = self.resets.get(made_by(call))
        given = given_to(method, call, method=True) if method is not None else None
        if method is None or given is None:
            return None
        bound = [pair for line in suites.below_docstring(method) for pair in usage.bindings(line)]
        return [(_state(target), nodes.substituted(value, given).deep_clone()) for target, value in bound]

    def read_constructor(self) -> bool:
        """Whether the constructor sets each of the states once, if at all, to what is no number or layer."""
        for line in suites.suite_of(self.init.body.body):
            call = suites.call_alone(line)
            if call is not None and nodes.code(call.func).startswith("self.") and made_by(call) in self.resets:
                reset = self.reset_by(call)
                if reset is None:
                    return False
                self.starts |= {state: (line, value) for state, value in reset}
                continue
            named = set(usage.attributes_of_self(line)) & set(self.states)
            bound = usage.bindings(line) if named and suites.alone(line) is not None else []
            own = {_state(target): value for target, value in bound if (nodes.dotted(target) or "").startswith("self.")}
            if not named:
                continue
            if (
                not named <= own.keys()
                or len(own) > 1
                or named & self.starts.keys()
                or any(map(_is_no_state, own.values()))
            ):
                return False
            self.starts |= {state: (line, value) for state, value in own.items()}
        return True


def kept_state(node: cst.ClassDef) -> KeptState | None:
    """What a class keeps, if that is told in it; None of other classes."""
    methods = suites.methods_of(node)
    init, forward = methods.get("__init__"), methods.get("forward")
    bases = [nodes.code(one.value) for one in node.bases]
    if init is None or forward is None or len(bases) != 1 or bases[0] not in _MODULES:
        return None
    set_there, read = usage.attributes_set(forward.body), _read(forward.body)
    states = sorted(set_there & read)
    registering = [call for call in usage.calls(node) if made_by(call).startswith("register") and call.args]
    registered = {nodes.literal(call.args[0].value) for call in registering}
    if not states or set_there - read or set(states) & registered or not _is_plain(forward, states):
        return None
    others = {name: one for name, one in methods.items() if one not in (init, forward)}
    about = {name: one for name, one in others.items() if set(usage.attributes_of_self(one.body)) & set(states)}
    if not all(_only_sets(one, states) for one in about.values()):
        return None
    made = KeptState(node, init, forward, states, about)
    return made if made.read_constructor() else None


def bare_names(node: cst.CSTNode) -> set[str]:
    """The names in a node, but for those of attributes."""
    aside = {one.attr for one in every(node, cst.Attribute)}
    return {one.value for one in every(node, cst.Name) if one not in aside}


def with_states(output: Expr, names: Sequence[str]) -> Expr:
    """An output, or what takes it, with the states beside it."""
    whole = nodes.parenthesized(output) if isinstance(output, cst.Tuple) else output
    return nodes.bare_tuple([whole, *map(nodes.name, names)])


def leaves(target: Expr) -> list[Expr]:
    """What an assignment sets, one by one."""
    if isinstance(target, cst.Tuple | cst.List):
        return [leaf for one in nodes.elements(target) for leaf in leaves(one)]
    return [target]


def _state(target: Expr) -> str:
    return (nodes.dotted(target) or "").removeprefix("self.")


def _is_no_state(value: Expr) -> bool:
    """Whether a value is no state that arrays could be: a number, a text, or a layer."""
    literal = nodes.literal(value)
    called = (nodes.dotted(value.func) or "") if isinstance(value, cst.Call) else ""
    return (literal not in (None, ...) and not isinstance(literal, tuple)) or called.startswith(("nn.", "torch.nn."))


def _read(body: cst.CSTNode) -> set[str]:
    """The attributes of `self` that a block reads."""
    targets = {leaf for one in every(body, cst.AssignTarget) for leaf in leaves(one.target)}
    own = [one for one in every(body, cst.Attribute) if nodes.dotted(one.value) == "self"]
    return {one.attr.value for one in own if one not in targets}


def _is_plain(forward: cst.FunctionDef, states: Sequence[str]) -> bool:
    """Whether a forward pass always returns something, and only names what it keeps where that can be an argument."""
    params, returned = forward.params, usage.returns(forward.body)
    stars = isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.kwonly_params
    inside = [name for one in every(forward.body, (*INNER, cst.Lambda)) for name in usage.attributes_of_self(one)]
    ends = suites.suite_of(forward.body.body)[-1]
    whole = bool(returned) and isinstance(suites.alone(ends), cst.Return) and all(one.value for one in returned)
    generator = any(True for _ in every(forward.body, cst.Yield))
    return not (stars or forward.decorators or set(inside) & set(states) or generator) and whole


def _only_sets(method: cst.FunctionDef, states: Sequence[str]) -> bool:
    """Whether a method does nothing but set states: `def reset(self, n): self.hidden = torch.zeros(n, 4)`."""
    body = suites.below_docstring(method)
    plain = all(isinstance(suites.alone(one), cst.Assign) for one in body) and not method.decorators
    bound = [pair for one in body for pair in usage.bindings(one)]
    own = all((nodes.dotted(target) or "").startswith("self.") and _state(target) in states for target, _ in bound)
    reads = {name for _, value in bound for name in usage.attributes_of_self(value)}
    return bool(body) and plain and own and not reads & set(states)


class _Returning(cst.CSTTransformer):
    """A method of which the states are variables; what it returns has them beside it."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        state = original_node.attr.value if nodes.dotted(original_node.value) == "self" else ""
        return cst.Name(self.names[state]) if state in self.names else updated_node

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        if updated_node.value is None:
            return updated_node
        return updated_node.with_changes(value=with_states(updated_node.value, list(self.names.values())))
