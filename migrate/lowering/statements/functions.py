"""The user's own functions: the state that they touch is in their signature and their returns."""

from __future__ import annotations

import libcst as cst

from migrate import layouts
from migrate.apis import is_data_api, is_grad_mode
from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts, merge
from migrate.known.kinds import (
    Function,
    Host,
    Kind,
    Leaf,
    Never,
    Tensor,
    join,
)
from migrate.known.qualified import inside, is_module, spelled
from migrate.known.states import KEY, THE_KEY
from migrate.lowering.expressions.elements import without_names
from migrate.lowering.expressions.named_lambdas import NamedLambdas
from migrate.lowering.expressions.user_calls import UserCalls
from migrate.lowering.initial.host_initializers import HostInitializers
from migrate.lowering.initial.initialisation import Initialisation
from migrate.lowering.models.handed_over import HandedOver
from migrate.lowering.plainer.parts_of_others import PartsOfOthers
from migrate.lowering.scope import HOST_CONTEXTS, Scope
from migrate.lowering.statements.signatures import threaded_parameters, with_defaults, with_draws, with_mode
from migrate.lowering.unit import joined_modes
from migrate.lowering.updates.gradient_flow import asks_for_gradients
from migrate.machine import DECORATORS, REGISTRIES
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import only_called
from migrate.syntax.nodes import Expr, Statement


class Functions(PartsOfOthers, HostInitializers, HandedOver, Initialisation, UserCalls, NamedLambdas):
    """Definitions of functions, and their returns."""

    def statement_FunctionDef(self, node: cst.FunctionDef) -> list[Statement]:
        return self.lambda_again(node, self.defined_there(node))

    def defined_there(self, node: cst.FunctionDef) -> list[Statement]:
        """What the definition of a function becomes; nothing where what it does is said elsewhere."""
        qualname = inside(self.scope, node.name.value)
        elsewhere = qualname in self.script.written_out and is_module(self.scope)
        if elsewhere or qualname in self.script.initialisers & self.script.functions.keys():
            self.script.functions[qualname].node = node
            self.env.kinds[node.name.value] = Function(qualname)
            return []  # what it does is in the constructors of the layers, or in the steps of optimizers
        if is_module(self.scope) and self.fills_layers_alone(node):
            self.script.functions.setdefault(qualname, FunctionFacts(node, qualname, self.scope)).node = node
            self.env.kinds[node.name.value] = Function(qualname)
            return []
        if qualname in self.script.host_functions:
            return [self.host_function(node)]
        if self.context == "setup" and self.only_applied(node):
            self.script.functions.setdefault(qualname, FunctionFacts(node, qualname, self.scope)).node = node
            self.env.kinds[node.name.value] = Function(qualname)
            return []
        if is_module(self.scope) and self.initialising_loop(node) is not None:
            self.script.functions.setdefault(qualname, FunctionFacts(node, qualname, self.scope)).node = node
            self.env.kinds[node.name.value] = Function(qualname)
            self.unit.report(Unsupported("MIG504", f"{node.name.value} is called for no model of this project"), node)
            return []
        return [self.function(node)]

    def only_applied(self, node: cst.FunctionDef) -> bool:
        """Whether a function inside a constructor is used for nothing but `self.apply(function)`."""
        statements = [statement for statement in self.blocks[0].statements if statement is not node]
        applied = [
            call
            for statement in statements
            for call in usage.calls(statement)
            if (nodes.dotted(call.func) or "").endswith(".apply")
            and nodes.dotted(call.args[0].value) == node.name.value
        ]
        return len(applied) == usage.loads(statements).count(node.name.value) > 0

    def host_function(self, node: cst.FunctionDef) -> cst.FunctionDef:
        """A function that data loading calls."""
        self.env.kinds[node.name.value] = Host("function")
        return self.stays_torch(node)

    def function(self, node: cst.FunctionDef) -> cst.FunctionDef:
        """A user's function: its body, with the state that it touches in its signature and its returns."""
        name = node.name.value
        qualname = inside(self.scope, name)
        facts = self.script.functions.setdefault(qualname, FunctionFacts(node, qualname, self.scope))
        facts.node = node = self.with_parts_named(facts, node)
        facts.owner_is_class = self.in_class and not facts.is_static
        if not self.in_class:
            self.env.kinds[name] = Function(qualname)
            self.env.definitions.pop(name, None)
        return self.defined(facts, node, self.function_scope(facts))

    def defined(self, facts: FunctionFacts, node: cst.FunctionDef, inner: Functions) -> cst.FunctionDef:
        """The definition of a function whose names live in the scope `inner`."""
        for switching in self.script.switching & facts.decorators:
            raise Unsupported("MIG403", f"{switching}, which switches the mode of a model around this function")
        with inner.recording_nothing(inner.records_nothing([each.decorator for each in node.decorators])):
            body = self._body(inner, facts)
        ends = [] if suites.exits(suites.suite_of(node.body.body)) else [inner.env.modes]
        facts.left_in = dict(joined_modes([*inner.returned, *ends] or [inner.env.modes]))
        facts.exit_modes = {place: facts.left_in.get(place, "mixed") for place in inner.changed_modes}
        self.script.finals[facts.qualname] = dict(inner.env.kinds)
        if self.context == "method":
            attributes = (
                self.script.found_attributes.setdefault(self.scope, {}) if self.in_class else self.bound_attributes
            )
            for found, kind in inner.bound_attributes.items():
                merge(attributes, found, kind)
        params = threaded_parameters(facts, node.params, inner.state_name)
        params = with_defaults(with_mode(params) if facts.takes_mode else params, facts.told)
        params = with_draws(params, facts.draws)
        if self.given_with(facts.returns):  # it returns more than is written
            node = node.with_changes(returns=None)
        return self.rewritten(node.with_changes(params=params), body, defaults=self)

    def rewritten(self, node: cst.FunctionDef, body: list[Statement], defaults: Scope) -> cst.FunctionDef:
        """A function with another body, without the decorators and annotations that only torch understands. Its default
        values belong to the scope `defaults`."""
        params = [
            p if p.default is None else p.with_changes(default=defaults.node(p.default)) for p in node.params.params
        ]
        params = [p.with_changes(annotation=None) if self.mentions_torch(p.annotation) else p for p in params]
        return node.with_changes(
            body=suites.block_of(node.body, body),
            params=node.params.with_changes(params=params),
            decorators=[decorator for decorator in node.decorators if not self._is_torch_mode(decorator.decorator)],
            returns=None if self.mentions_torch(node.returns) else node.returns,
        )

    def _is_torch_mode(self, decorator: Expr) -> bool:
        name = self.torch_name(decorator.func if isinstance(decorator, cst.Call) else decorator)
        if name is not None and is_data_api(name):
            return name in REGISTRIES
        if name is not None and name.endswith(".autocast") and _is_off(decorator):
            return True  # it computes in the types of what it is given, as it does in JAX
        if name is not None and not is_grad_mode(name) and name not in DECORATORS:
            raise Unsupported("MIG301", f"the decorator {name}")
        return name is not None

    def own_seed(self, facts: FunctionFacts) -> int:
        """The seed of a function that makes its key itself: one that its file and the functions before it have not."""
        own = [one.qualname for one in self.script.functions.values() if one.local_key]
        same_file = [name for name in own if self.in_file_of(name).unit is self.unit]
        return same_file.index(facts.qualname) + (self.unit.scope in self.script.module_keys)

    @staticmethod
    def _body(inner: Functions, facts: FunctionFacts) -> list[Statement]:
        if facts.qualname in inner.script.keyed:
            inner.read(THE_KEY)
        body = inner.suite(facts.node.body.body, cyclic=True)
        inner.finish_inits()
        early = usage.reads_first(body, inner.unit.key)  # before the seed
        if facts.local_key and (early or not inner.ran_key):
            made = nodes.statement(f"{inner.unit.key} = jax.random.key({inner.own_seed(facts)})")
            body = suites.after_docstring(body, [made])
        if facts.draws_globally:
            body = suites.after_docstring(body, [nodes.statement(f"global {inner.unit.key}")])
        elif not facts.local_key:
            body = _one_draw(body, inner.unit.key)
        states = inner.own_returns()
        if states and not isinstance(facts.yields, Never):
            raise Unsupported("MIG404", f"{spelled(facts.qualname)} yields, and changes {facts.written[0].what}")
        if states and not suites.exits(body):
            body.append(nodes.statement("return {s}", s=nodes.bare_tuple(states)))
        return body

    def small_Return(self, line: cst.SimpleStatementLine, small: cst.Return) -> list[Statement]:
        """`return x` gives the changed state back as well."""
        self.receiving = small.value  # what a function made for this one goes on to the caller
        value = self.expr(small.value) if small.value is not None else None
        self.receiving = None
        if value is not None:
            value = self.usable(value)
            self.refuse_torch(value)
            self.hand_over(value.kind)
        if self.facts is not None and value is not None:
            kind = self.returned_kind(value.kind, small.value)
            self.facts.returns = join(self.facts.returns, self.on_its_way(kind))
        node = self.without_gradient(layouts.first(value), value.kind) if value is not None else None
        if isinstance(small.value, cst.Name) and value is not None and not self._gives_its_own(value.kind):
            self.use(small.value, value)
        self.returned.append(dict(self.env.modes))
        states = self.own_returns()
        if self.facts is not None and value is not None:
            own = [state for state in self.given_with(value.kind) if state.place.scope == self.scope]
            states += map(self.state_expr, own)
        if states:
            node = nodes.bare_tuple([*states, *([node] if node is not None else [])])
        bare = node is not None and small.value is None  # `return` alone has no space behind it
        space = cst.SimpleWhitespace(" ") if bare else small.whitespace_after_return
        made = small.with_changes(value=node, whitespace_after_return=space)
        return suites.rebuilt(line, small, made)

    def returned_kind(self, kind: Kind, written: Expr | None) -> Kind:
        """What a caller gets: of a tensor made here that gradients are taken of, a leaf that has no name yet."""
        if not isinstance(kind, Tensor) or self.context not in HOST_CONTEXTS or self.under_jit:
            return without_names(kind)
        own = isinstance(kind, Leaf) and kind.place.scope == self.scope
        asked = written is not None and asks_for_gradients(written)
        return Leaf(kind.dtype, kind.rank, kind.optional, kind.origins) if own or asked else without_names(kind)

    def _gives_its_own(self, kind: Kind) -> bool:
        """Whether what a function gives back is one that it has defined, and its callers know which: they give it its
        state where they call it."""
        if self.facts is None or self.facts.method or not isinstance(kind, Function) or kind != self.facts.returns:
            return False
        own = kind.name.rpartition(".")[0] == self.facts.qualname
        name = self.facts.qualname.rpartition(".")[2]
        return own and all(only_called(unit.source.module, name) for unit in self.unit.others.values())

    def own_returns(self) -> list[Expr]:
        """The state that this function changes and gives back before its own results."""
        if self.facts is None or self.context in ("forward", "setup", "region"):
            return []
        if self.script.is_constructor(self.scope):
            return []
        return [self.state_expr(state) for state in self.facts.written if state.what != KEY]


def _one_draw(body: list[Statement], key: str) -> list[Statement]:
    """A function that draws once uses the key it was given as it is."""
    split = f"{key}, subkey = jax.random.split({key})"
    drawing = (i for i, s in enumerate(body) if "subkey" in usage.stores(s))
    position = next((i for i in drawing if nodes.code(body[i]).strip() == split), None)
    if position is None or cst.Module(body).code.count("jax.random.split(") != 1:
        return body
    taken = {"subkey": nodes.name(key)}
    following = [nodes.substituted(statement, taken) for statement in body[position + 1 :]]
    if following:
        following[0] = following[0].with_changes(
            leading_lines=[*body[position].leading_lines, *following[0].leading_lines]
        )
    return [*body[:position], *following]


def _is_off(decorator: Expr) -> bool:
    """Whether autocast is switched off: `@autocast("cuda", enabled=False)`."""
    args = decorator.args if isinstance(decorator, cst.Call) else ()
    enabled = [arg.value for arg in args if arg.keyword is not None and arg.keyword.value == "enabled"]
    return len(enabled) == 1 and nodes.is_literal(enabled[0], False)
