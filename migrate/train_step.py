"""Pass 5: update regions become pure, jitted step functions; models and optimizers get their state beside them.

An update region is the run of statements in one block that goes forward, calls `backward()` and, where it is in the same
block, steps the optimizer. What the loss depends on becomes the body of `loss_fn`; what is read afterwards comes back
in `metrics`; every other statement stays on the host, in its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kinds import (
    UNKNOWN,
    Function,
    Host,
    Kind,
    Loss,
    Model,
    ModuleClass,
    Number,
    Optimizer,
    Place,
    Plain,
    Tensor,
    TorchName,
)
from migrate.lower_statements import Statements, block
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.script import BATCH_STATS, GRADS, KEY, OPT_STATE, PARAMS, THE_KEY, State

_HOST_METHODS = {"item", "tolist", "numpy", "cpu", "append", "add_scalar", "update", "write", "log", "set_postfix"}
_HOST_FUNCTIONS = {"print", "float", "int", "open", "input"}
_HOST_CONTEXTS = ("module", "function", "method")


@dataclass
class Region:
    """The statements of an update, each in its part."""

    statements: list[Statement]
    width: int
    loss: Expr
    before: list[Statement]  # host statements that prepare it
    traced: list[Statement]  # become loss_fn
    after: list[Statement]  # host statements that read its results
    clips: list[tuple[str, cst.Call]]  # (name bound, call)
    step: cst.Call | None  # None where the optimizer steps elsewhere: gradients accumulate
    comments: dict[str, Statement] = field(default_factory=dict)


@dataclass
class RegionState:
    """What a loss function was found to need while it was lowered."""

    states: list[State] = field(default_factory=list)
    changed: list[State] = field(default_factory=list)
    keys: int = 0
    key_count: int = 0


def _call_of(statement: Statement) -> cst.Call | None:
    """The call of a statement that is nothing but a call."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        small = statement.body[0]
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            return small.value
    return None


def _method(statement: Statement) -> str:
    call = _call_of(statement)
    return call.func.attr.value if call is not None and isinstance(call.func, cst.Attribute) else ""


class _Calls(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[cst.Call] = []

    def visit_Call(self, node: cst.Call) -> None:
        self.found.append(node)


def calls_in(node: cst.CSTNode) -> list[cst.Call]:
    visitor = _Calls()
    node.visit(visitor)
    return visitor.found


def has_host_effects(statement: cst.CSTNode) -> bool:
    """Whether a statement takes values out of JAX or prints: it must not run inside a jitted function."""
    for call in calls_in(statement):
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else nodes.dotted(call.func)
        if name in (_HOST_METHODS if isinstance(call.func, cst.Attribute) else _HOST_FUNCTIONS):
            return True
    return False


def first_access(statements: Sequence[cst.CSTNode], name: str) -> str:
    """What happens first to the old value of a name: "load", "store", or "" where neither surely does."""
    for statement in statements:
        found = _access(statement, name)
        if found:
            return found
    return ""


def _access(statement: cst.CSTNode, name: str) -> str:
    if isinstance(statement, cst.SimpleStatementLine):
        if name in nodes.loads(statement):
            return "load"
        return "store" if name in nodes.stores(statement) else ""
    if isinstance(statement, cst.For):
        if name in nodes.loads(statement.iter):
            return "load"
        target = nodes.stores(cst.Assign([cst.AssignTarget(statement.target)], cst.Name("None")))
        inner = "store" if name in target else first_access(statement.body.body, name)
        return "load" if inner == "load" else ""
    if isinstance(statement, cst.While | cst.If):
        if name in nodes.loads(statement.test):
            return "load"
        parts = [first_access(statement.body.body, name)]
        if isinstance(statement.orelse, cst.If):
            parts.append(_access(statement.orelse, name))
        elif statement.orelse is not None:
            parts.append(first_access(statement.orelse.body.body, name))
        return "load" if "load" in parts else ""
    if isinstance(statement, cst.With):
        if any(name in nodes.loads(item) for item in statement.items):
            return "load"
        return first_access(statement.body.body, name)
    return "load" if name in nodes.loads(statement) else ""


class TrainSteps(Statements):
    """Lowering of update regions and of what they work on."""

    region: RegionState | None = None

    # -- finding ------------------------------------------------------------------------------------------------------

    def region_at(self, statements: list[Statement], index: int) -> Region | None:
        """The update region that starts at a statement of a block."""
        if self.context not in _HOST_CONTEXTS:
            return None
        backward = next((i for i in range(index, len(statements)) if self.is_backward(statements[i])), None)
        if backward is None:
            return None
        call = _call_of(statements[backward])
        assert call is not None and isinstance(call.func, cst.Attribute)
        traced = self.traced(statements[index : backward + 1])
        wanted = self.slice(statements[index:backward], call.func.value)
        body = [i for i in range(backward - index) if i in wanted and i in traced]
        start = min(body, default=backward - index)
        if start != 0:
            return None
        step = next(
            (i for i in range(backward + 1, len(statements)) if self.is_optimizer_call(statements[i], "step")), None
        )
        nearby = any(self.is_optimizer_call(s, "zero_grad") or self.is_model_zero(s) for s in statements)
        other = next((i for i in range(backward + 1, len(statements)) if self.is_backward(statements[i])), None)
        if step is not None and other is not None and other < step:
            raise_later = [statements[backward], statements[other]]
            return self.several_backward(statements, index, raise_later)
        fused = step is not None and nearby
        end = step + 1 if fused and step is not None else backward + 1
        if not fused:
            self.mark_accumulated(statements[index:end], traced)
        return self.sorted_region(statements, index, backward, end, fused, set(body), traced, call)

    def several_backward(self, statements: list[Statement], index: int, _: list[Statement]) -> Region:
        end = (
            next(i for i in range(len(statements) - 1, index, -1) if self.is_optimizer_call(statements[i], "step")) + 1
        )
        found = statements[index:end]
        return Region(found, len(found), cst.Name("None"), [], [], [], [], None, {"unsupported": found[0]})

    def is_backward(self, statement: Statement) -> bool:
        call = _call_of(statement)
        return call is not None and _method(statement) == "backward" and not isinstance(call.func, cst.Name)

    def is_optimizer_call(self, statement: Statement, method: str) -> bool:
        call = _call_of(statement)
        if call is None or _method(statement) != method or not isinstance(call.func, cst.Attribute):
            return False
        return isinstance(self.kind_of(call.func.value), Optimizer)

    def is_model_zero(self, statement: Statement) -> bool:
        call = _call_of(statement)
        if call is None or _method(statement) != "zero_grad" or not isinstance(call.func, cst.Attribute):
            return False
        return isinstance(self.kind_of(call.func.value), Model)

    def kind_of(self, node: Expr) -> Kind:
        """The kind of a plain name or an attribute of self, without lowering it."""
        text = nodes.dotted(node)
        return self.kind_of_name(text) if text else UNKNOWN

    def calls_model(self, statement: cst.CSTNode) -> bool:
        for call in calls_in(statement):
            text = nodes.dotted(call.func)
            if text is None:
                continue
            kind = self.kind_of_name(text)
            method = isinstance(call.func, cst.Attribute) and isinstance(self.kind_of(call.func.value), Model)
            if isinstance(kind, Model) or (
                method and text.rpartition(".")[2] not in ("train", "eval", "parameters", "zero_grad", "to")
            ):
                return True
            if isinstance(kind, Function):
                facts = self.script.functions[kind.name]
                if any(state.what == PARAMS for state in facts.reads):
                    return True
        return False

    def traced(self, statements: Sequence[Statement]) -> set[int]:
        """The statements that work on what the model returned."""
        names: set[str] = set()
        found: set[int] = set()
        for number, statement in enumerate(statements):
            if self.calls_model(statement) or names & set(nodes.loads(statement)):
                found.add(number)
                if not has_host_effects(statement):
                    names |= set(nodes.stores(statement))
            else:
                names -= set(nodes.stores(statement))
        return found

    @staticmethod
    def slice(statements: Sequence[Statement], loss: Expr) -> set[int]:
        """The statements that the loss depends on."""
        needed = set(nodes.loads(loss))
        found: set[int] = set()
        for number in range(len(statements) - 1, -1, -1):
            statement = statements[number]
            call = _call_of(statement)
            receiver = nodes.dotted(call.func.value) if call and isinstance(call.func, cst.Attribute) else None
            stored = set(nodes.stores(statement))
            if stored & needed or (receiver in needed and not has_host_effects(statement)):
                found.add(number)
                if isinstance(statement, cst.SimpleStatementLine):
                    needed -= stored
                needed |= set(nodes.loads(statement))
        return found

    def mark_accumulated(self, statements: Sequence[Statement], traced: set[int]) -> None:
        for number in traced:
            for call in calls_in(statements[number]):
                kind = self.kind_of_name(nodes.dotted(call.func) or "")
                if isinstance(kind, Model) and kind.place is not None:
                    self.script.accumulated.add(self.root(kind.place))

    def sorted_region(
        self,
        statements: list[Statement],
        index: int,
        backward: int,
        end: int,
        fused: bool,
        body: set[int],
        traced: set[int],
        call: cst.Call,
    ) -> Region:
        assert isinstance(call.func, cst.Attribute)
        found = Region(statements[index:end], end - index, call.func.value, [], [], [], [], None)
        inner_stores: set[str] = set()
        for number, statement in enumerate(found.statements):
            if number == backward - index:
                found.comments["backward"] = statement
                if call.args:
                    found.comments["unsupported"] = statement
            elif number in body:
                if has_host_effects(statement):
                    found.comments["unsupported"] = statement
                found.traced.append(statement)
                inner_stores |= set(nodes.stores(statement))
            elif self.is_optimizer_call(statement, "step"):
                found.step = _call_of(statement)
                found.comments["step"] = statement
            elif self.is_optimizer_call(statement, "zero_grad") or self.is_model_zero(statement):
                pass
            elif self.clip(statement) is not None:
                clip = self.clip(statement)
                assert clip is not None
                found.clips.append(clip)
            elif number in traced or found.after or number > backward - index:
                found.after.append(statement)
            else:
                found.before.append(statement)
        needed = set(nodes.loads(found.traced))
        if any(
            set(nodes.stores(statement)) & needed - inner_stores
            for statement in found.after
            if not isinstance(statement, cst.For)
        ):
            late = {name for statement in found.after for name in nodes.stores(statement)}
            if any(name in needed for name in late) and found.after and not fused:
                found.comments["unsupported"] = found.after[0]
        return found

    def clip(self, statement: Statement) -> tuple[str, cst.Call] | None:
        """`clip_grad_norm_(...)`, alone or assigned to a name."""
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        small, bound = statement.body[0], "_"
        if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
            bound = small.targets[0].target.value
        value = small.value if isinstance(small, cst.Assign | cst.Expr) else None
        if isinstance(value, cst.Call) and self.torch_name(value.func) in (
            "torch.nn.utils.clip_grad_norm_",
            "torch.nn.utils.clip_grad_norm",
        ):
            return bound, value
        return None

    # -- state inside a region ----------------------------------------------------------------------------------------

    def read(self, state: State) -> Expr:
        if self.region is None:
            return super().read(state)
        if state not in self.region.states:
            self.region.states.append(state)
        return nodes.name(self.state_name(state))

    def write(self, state: State) -> Expr:
        if self.region is None:
            return super().write(state)
        if state not in self.region.changed:
            self.region.changed.append(state)
        return self.read(state)

    def fresh_key(self) -> Expr:
        if self.region is None:
            return super().fresh_key()
        self.region.keys += 1
        if self.region.key_count <= 1:
            return nodes.name(self.unit.key)
        return nodes.expression(f"keys[{self.region.keys - 1}]")

    def model_call(self, node: cst.Call, callee: Value, direct: bool = False) -> Value:
        if self.region is None:
            return super().model_call(node, callee, direct)
        kind = callee.kind
        assert isinstance(kind, Model) and kind.place is not None
        self.record_example(kind, node.args)
        mode = self.mode(kind)
        values = [self.array(arg.value) for arg in node.args]
        result = self.call_kind(kind, node.args, values)
        from migrate import layouts

        args = [arg.with_changes(value=layouts.first(value)) for arg, value in zip(node.args, values, strict=True)]
        streams = self.streams(kind, mode)
        short = nodes.name(kind.place.name.removeprefix("self."))
        made = self.plain_apply(short, kind, mode, args, streams)
        if mode == "train" and self.stats_of(kind):
            assert isinstance(made, cst.Call)
            made = made.with_changes(
                args=[*made.args, *nodes.arguments([], {"mutable": nodes.expression('["batch_stats"]')})]
            )
            stats = self.write(State(BATCH_STATS, kind.place))
            output = nodes.name("output" if "output" not in self.unit.taken else "model_output")
            self.before.append(nodes.statement("{output}, mutated = {made}", output=output, made=made))
            self.before.append(nodes.statement('{stats} = mutated["batch_stats"]', stats=stats))
            return Value(output, result)
        return Value(made, result)

    # -- lowering -----------------------------------------------------------------------------------------------------

    def lower_region(self, region: Region) -> list[Statement]:
        if "unsupported" in region.comments:
            raise Unsupported(
                "MIG401", "several backward passes, arguments of backward(), or host effects inside the loss"
            )
        made: list[Statement] = []
        for statement in region.before:
            made += self.guarded(statement, None)
        inner = self.loss_lowering(region)
        state, body, loss, kinds = inner
        trained = self.trained(state, region)
        optimizer = (
            self.kind_of(region.step.func.value)
            if region.step and isinstance(region.step.func, cst.Attribute)
            else None
        )
        following = [*region.after]
        self.following.insert(0, following)
        live = self.live_names(region, loss)
        call = self.assemble(
            region, state, body, loss, trained, optimizer if isinstance(optimizer, Optimizer) else None, live
        )
        self.following.pop(0)
        made += call
        for name in nodes.stores(region.traced):
            self.env.kinds[name] = kinds.get(name, UNKNOWN)
            self.env.last.pop(name, None)
            self.env.definitions.pop(name, None)
        if isinstance(region.loss, cst.Name):
            self.env.kinds[region.loss.value] = Tensor("float", 0)
        for number, statement in enumerate(region.after):
            self.following.insert(0, region.after[number + 1 :])
            made += self.guarded(statement, None)
            self.following.pop(0)
        return made

    def loss_lowering(self, region: Region) -> tuple[RegionState, list[Statement], Expr, dict[str, Kind]]:
        """Lowers the traced statements twice: once to count the random draws, once for good."""
        counted = 0
        state = RegionState()
        for final in (False, True):
            inner = self.region_scope(RegionState(key_count=counted))
            assert inner.region is not None
            if final:
                body, loss = inner.loss_body(region)
                state = inner.region
                return state, body, loss, inner.env.kinds
            with self.unit.discarding():
                inner.loss_body(region)
            counted = inner.region.keys
        raise AssertionError

    def region_scope(self, state: RegionState) -> TrainSteps:
        import copy

        inner = copy.copy(self)
        inner.context = "region"
        inner.region = state
        inner.env = self.env.copy()
        inner.before = []
        return inner

    def loss_body(self, region: Region) -> tuple[list[Statement], Expr]:
        made: list[Statement] = []
        for statement in region.traced:
            self.before = []
            lowered = self.statement(statement)
            from migrate.lower_statements import with_comments

            made += with_comments([*self.before, *lowered], statement)
        self.before = []
        loss = self.node(region.loss)
        made += self.before
        return self.tidied(made), loss

    @staticmethod
    def tidied(statements: list[Statement]) -> list[Statement]:
        """No blank line before the first statement; `output, mutated = f(); y = output` becomes one assignment."""
        made: list[Statement] = []
        for statement in statements:
            if (
                len(made) >= 2
                and isinstance(statement, cst.SimpleStatementLine)
                and isinstance(statement.body[0], cst.Assign)
            ):
                assign, pair = statement.body[0], made[-2]
                small = pair.body[0] if isinstance(pair, cst.SimpleStatementLine) else None
                if (
                    isinstance(small, cst.Assign)
                    and isinstance(small.targets[0].target, cst.Tuple)
                    and nodes.code(small.targets[0].target).endswith(", mutated")
                    and nodes.dotted(assign.value) == nodes.dotted(small.targets[0].target.elements[0].value)
                    and isinstance(assign.targets[0].target, cst.Name)
                ):
                    target = nodes.tuple_of([assign.targets[0].target, nodes.name("mutated")], parentheses=False)
                    assert isinstance(pair, cst.SimpleStatementLine)
                    made[-2] = pair.with_changes(body=[small.with_changes(targets=[cst.AssignTarget(target)])])
                    continue
            made.append(statement)
        if made:
            lines = [line for line in made[0].leading_lines if line.comment is not None]
            made[0] = made[0].with_changes(leading_lines=lines)
        return made

    def trained(self, state: RegionState, region: Region) -> State:
        """The parameters that the gradient is taken of."""
        candidates = [found for found in state.states if found.what == PARAMS]
        wanted: set[Place] = set()
        if region.step is not None and isinstance(region.step.func, cst.Attribute):
            kind = self.kind_of(region.step.func.value)
            if isinstance(kind, Optimizer):
                wanted = {self.root(place) for place in kind.models}
        else:
            wanted = {self.root(place) for models in self.optimizer_models.values() for place in models}
        chosen = [found for found in candidates if self.root(found.place) in wanted or not wanted]
        if len(chosen) != 1:
            raise Unsupported("MIG401", f"the loss depends on {len(chosen)} models that are trained here, not on one")
        return chosen[0]

    def live_names(self, region: Region, loss: Expr) -> list[str]:
        """Names bound in the loss function that are read afterwards."""
        names = dict.fromkeys(nodes.stores(region.traced))
        return [name for name in names if name != "_" and self.live(name)]

    def live(self, name: str) -> bool:
        for statements in self.following:
            access = first_access(statements, name)
            if access == "load":
                return True
            if access == "store":
                return False
        if self.context == "module":
            return any(name in nodes.loads(facts.node) for facts in self.script.functions.values())
        return False

    # -- assembling ---------------------------------------------------------------------------------------------------

    def assemble(
        self,
        region: Region,
        state: RegionState,
        body: list[Statement],
        loss: Expr,
        trained: State,
        optimizer: Optimizer | None,
        live: list[str],
    ) -> list[Statement]:
        """The step function, and the statement that calls it."""
        fused = optimizer is not None
        params = self.state_name(trained)
        grads = "grads"
        changed = [found for found in state.changed if found.what == BATCH_STATS]
        clips = [(bound, self.region_expr(state, call.args[1].value)) for bound, call in region.clips]
        body, clip_nodes, lifted = self.lifted(body, [node for _, node in clips] + [loss])
        loss, clip_values = clip_nodes[-1], clip_nodes[:-1]
        loss_name = nodes.dotted(region.loss)
        extra = [name for name in live if name != loss_name]
        step: list[Statement] = []
        if state.keys > 1:
            step.append(nodes.statement(f"keys = jax.random.split({self.unit.key}, {state.keys})"))
        assigned = set(nodes.stores(body))
        carried = [name for name in dict.fromkeys(nodes.loads(body)) if name in assigned and self.carried(body, name)]
        stats = [self.state_name(found) for found in changed]
        carried = [name for name in carried if name not in stats]
        returned = [*stats, *extra]
        loss_params = [params, *stats, *carried]
        function = "loss_fn" if "loss_fn" not in self.unit.taken else "compute_loss"
        step.append(self.loss_function(function, body, loss, loss_params, returned))
        step.append(self.gradient(function, region, loss_params, returned, grads if fused else "new_grads"))
        for (bound, _), value in zip(clips, clip_values, strict=True):
            self.unit.snippets.add("clip_grad_norm")
            step.append(nodes.statement(f"{grads}, {bound} = clip_grad_norm({grads}, {{value}})", value=value))
            if bound != "_" and self.live(bound):
                extra.append(bound)
        outputs = [params, *stats]
        if optimizer is not None:
            opt_state = self.state_name(State(OPT_STATE, optimizer.place))
            optimizer_name = optimizer.place.name.removeprefix("self.")
            update = f"updates, {opt_state} = {optimizer_name}.update({grads}, {opt_state}, {params})"
            step.append(_commented(nodes.statement(update), region.comments.get("step")))
            step.append(nodes.statement(f"{params} = optax.apply_updates({params}, updates)"))
            outputs.append(opt_state)
        else:
            outputs = [*stats, grads]
        metrics = nodes.dict_of([("loss", nodes.name("loss")), *((name, nodes.name(name)) for name in extra)])
        if optimizer is not None:
            result = nodes.tuple_of([*map(nodes.name, outputs), metrics], parentheses=False)
        else:
            summed = nodes.expression(f"jax.tree.map(jnp.add, {grads}, new_grads)")
            result = nodes.tuple_of([*map(nodes.name, stats), summed, metrics], parentheses=False)
        step.append(nodes.statement("return {result}", result=result))
        wanted = "train_step" if fused else "forward_backward"
        donated = [params, *stats, *outputs[len(stats) + 1 :]] if fused else [*stats, grads]
        return self.step_call(
            region,
            wanted,
            step,
            trained,
            changed,
            optimizer,
            state,
            lifted,
            donated,
            outputs,
            [loss_name or "", *extra],
            live,
        )

    def region_expr(self, state: RegionState, node: Expr) -> Expr:
        inner = self.region_scope(state)
        return inner.node(node)

    @staticmethod
    def carried(body: Sequence[Statement], name: str) -> bool:
        """Whether the loss function reads a name before it binds it: the name must then be its parameter."""
        return first_access(body, name) == "load"

    @staticmethod
    def loss_function(
        name: str, body: list[Statement], loss: Expr, params: list[str], returned: list[str]
    ) -> Statement:
        result = loss
        if returned:
            aux = (
                nodes.name(returned[0])
                if len(returned) == 1
                else nodes.tuple_of([nodes.name(name) for name in returned])
            )
            result = nodes.tuple_of([loss, aux], parentheses=False)
        function = cst.parse_statement(f"def {name}({', '.join(params)}):\n    pass")
        assert isinstance(function, cst.FunctionDef)
        return function.with_changes(body=block([*body, nodes.statement("return {r}", r=result)]))

    @staticmethod
    def gradient(function: str, region: Region, params: list[str], returned: list[str], grads: str) -> Statement:
        arguments = ", ".join(params)
        if not returned:
            text = f"loss, {grads} = jax.value_and_grad({function})({arguments})"
        else:
            aux = returned[0] if len(returned) == 1 else f"({', '.join(returned)})"
            text = f"(loss, {aux}), {grads} = jax.value_and_grad({function}, has_aux=True)({arguments})"
        made = _commented(nodes.statement(text), region.comments.get("backward"))
        return made.with_changes(leading_lines=[cst.EmptyLine(indent=False), *made.leading_lines])

    def lifted(
        self, body: list[Statement], others: list[Expr]
    ) -> tuple[list[Statement], list[Expr], dict[str, tuple[Expr, Kind]]]:
        """Replaces attributes of local objects (`args.beta`, `self.criterion`) by names that the step takes as arguments."""
        found: dict[str, tuple[Expr, Kind]] = {}
        scope = self

        class Lift(cst.CSTTransformer):
            def __init__(self) -> None:
                super().__init__()
                self.functions: list[cst.CSTNode] = []

            def visit_Call(self, node: cst.Call) -> None:
                self.functions.append(node.func)

            def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
                text = nodes.dotted(original_node)
                if text is None:
                    return updated_node
                head = text.split(".")[0]
                called = any(original_node is function for function in self.functions)
                if head == "self":
                    if text.count(".") > 1:
                        return updated_node
                elif called or scope.reachable(head) or not scope.liftable(head):
                    return updated_node
                name = text.rpartition(".")[2]
                kind = scope.kind_of_name(text)
                found[name] = (original_node, kind)
                return nodes.name(name)

        lift = Lift()
        made_body = [statement.visit(lift) for statement in body]
        made_others = [node.visit(lift) for node in others]
        return made_body, made_others, found  # type: ignore[return-value]

    def liftable(self, name: str) -> bool:
        kind = self.env.lookup(name)
        return kind is not None and type(kind) in (Kind, Plain)

    def reachable(self, name: str) -> bool:
        """Whether a module-level function can use the name as it is: a constant, a function, an import of the module."""
        kind = self.env.lookup(name)
        if kind is None:
            return True
        if name in self.env.kinds and self.context != "module":
            return False
        outer = self.env.outer
        if self.context != "module" and outer is not None and name in outer.kinds and outer.outer is not None:
            return False  # a variable of an enclosing function
        if isinstance(kind, TorchName | Function | ModuleClass) or (
            isinstance(kind, Plain) and kind.what in ("module", "imported")
        ):
            return True
        if isinstance(kind, Tensor | Host):
            return False
        return name in self.unit.constants

    def step_call(
        self,
        region: Region,
        wanted: str,
        step: list[Statement],
        trained: State,
        changed: list[State],
        optimizer: Optimizer | None,
        state: RegionState,
        lifted: dict[str, tuple[Expr, Kind]],
        donated: list[str],
        outputs: list[str],
        names: list[str],
        live: list[str],
    ) -> list[Statement]:
        states = [*state.states]
        if optimizer is not None:
            states.append(State(OPT_STATE, optimizer.place))
        else:
            states.append(State(GRADS, trained.place))
        state_names = {self.state_name(found): found for found in states}
        statics: dict[str, Expr] = {}
        inputs: dict[str, Expr] = {}
        objects = [found.place for found in states if found.what in (PARAMS, OPT_STATE)]
        for place in objects:
            if not self.is_global(place):
                short = place.name.removeprefix("self.")
                statics[short] = nodes.expression(place.name)
        bound = set(nodes.stores(step)) | {"loss", "grads", "new_grads", "updates", "keys", "mutated"}
        for name in dict.fromkeys(nodes.loads(step)):
            if name in state_names or name in statics or name == self.unit.key:
                continue
            if name in lifted:
                node, kind = lifted[name]
                (statics if isinstance(kind, Loss | Function | Model) else inputs)[name] = node
            elif name not in bound and not self.reachable(name):
                kind = self.env.lookup(name)
                if isinstance(kind, Loss | Function | Plain | Model | Optimizer) or (
                    isinstance(kind, Number) and self.shapes(step, name)
                ):
                    statics[name] = nodes.name(name)
                else:
                    inputs[name] = self.as_array(Value(nodes.name(name), kind or UNKNOWN)).node
            elif name in bound and not self.reachable(name) and self.carried(step_inner(step), name):
                inputs[name] = self.as_array(Value(nodes.name(name), self.kind_of_name(name))).node
        ordered = [self.state_name(found) for found in states]
        parameters = [*statics, *ordered, *inputs, *([self.unit.key] if state.keys else [])]
        decorator = self.decorator(list(statics), donated)

        def make(name: str) -> list[Statement]:
            function = cst.parse_statement(f"{decorator}\ndef {name}({', '.join(parameters)}):\n    pass")
            assert isinstance(function, cst.FunctionDef)
            return [function.with_changes(body=block(step))]

        name = self.unit.helper(wanted, make, f"{decorator}({', '.join(parameters)})" + cst.Module(step).code)
        arguments: list[Expr] = [*statics.values(), *(self.read(found) for found in states), *inputs.values()]
        if state.keys:
            arguments.append(self.fresh_key())
        for found in states:
            if self.state_name(found) in donated:
                self.write(found)
        metrics = "metrics" if "metrics" not in self.unit.taken else "step_metrics"
        by_name = {self.state_name(found): self.state_expr(found) for found in states}
        targets: list[Expr] = [by_name.get(output, nodes.name(output)) for output in outputs] + [nodes.name(metrics)]
        call = nodes.call(name, *arguments)
        made: list[Statement] = [
            nodes.statement("{targets} = {call}", targets=nodes.tuple_of(targets, parentheses=False), call=call)
        ]
        for number, output in enumerate(names):
            if output and (number or output in live):
                key = "loss" if number == 0 else output
                made.append(nodes.statement(f'{output} = {metrics}["{key}"]'))
        before, self.before = self.before, []
        return [*before, *made]

    @staticmethod
    def shapes(step: Sequence[Statement], name: str) -> bool:
        """Whether a number is used where jit needs a constant: in a shape, a range, or a condition."""
        for call in calls_in(cst.Module(list(step))):
            text = nodes.code(call.func).rpartition(".")[2]
            if text in (
                "reshape",
                "range",
                "arange",
                "zeros",
                "ones",
                "split",
                "broadcast_to",
                "tile",
            ) and name in nodes.loads(call):
                return True
        return False

    @staticmethod
    def decorator(statics: list[str], donated: list[str]) -> str:
        def shown(names: list[str]) -> str:
            return f'"{names[0]}"' if len(names) == 1 else "(" + ", ".join(f'"{name}"' for name in names) + ")"

        keywords = [f"static_argnames={shown(statics)}"] if statics else []
        keywords += [f"donate_argnames={shown(donated)}"] if donated else []
        return f"@jax.jit({', '.join(keywords)})" if keywords else "@jax.jit"

    # -- steps apart from backward ------------------------------------------------------------------------------------

    def accumulates(self, kind: Optimizer) -> bool:
        return any(self.root(place) in self.script.accumulated for place in kind.models)

    def gradient_state(self, kind: Optimizer) -> tuple[State, State]:
        """The parameters of the optimizer's model, and their gradients, in this scope."""
        if len(kind.models) != 1:
            raise Unsupported("MIG401", "an optimizer of several models")
        root = self.root(kind.models[0])
        place = next(
            (
                found.place
                for name in [*self.env.kinds, *(self.env.outer.kinds if self.env.outer else {})]
                if isinstance(found := self.kind_of_name(name), Model)
                and found.place
                and self.root(found.place) == root
            ),
            root,
        )
        return State(PARAMS, place), State(GRADS, place)

    def zero_grad(self, kind: Optimizer) -> list[Statement]:
        if not self.accumulates(kind):
            return []
        params, grads = self.gradient_state(kind)
        target = self.write(grads)
        self.script.zeroed_late.discard(self.root(grads.place))
        return [nodes.statement("{g} = jax.tree.map(jnp.zeros_like, {p})", g=target, p=self.read(params))]

    pending_clip: Expr | None = None

    def clip_statement(self, node: cst.Call) -> list[Statement]:
        self.pending_clip = self.node(node.args[1].value)
        return []

    def optimizer_step(self, node: cst.Call, kind: Optimizer) -> list[Statement]:
        """`optimizer.step()` apart from `backward()`: the accumulated gradients are applied."""
        if node.args:
            raise Unsupported("MIG401", "step(closure)")
        if not self.accumulates(kind):
            raise Unsupported("MIG401", "optimizer.step() without a backward pass that was understood")
        params, grads = self.gradient_state(kind)
        opt_state = State(OPT_STATE, kind.place)
        shared = self.is_global(kind.place)
        optimizer = kind.place.name.removeprefix("self.")
        names = [self.state_name(params), self.state_name(opt_state)]
        p, o = names
        statics = [] if shared else [optimizer]
        body: list[Statement] = []
        clip_arguments: list[Expr] = []
        clip_names: list[str] = []
        if self.pending_clip is not None:
            self.unit.snippets.add("clip_grad_norm")
            value = self.pending_clip
            if not isinstance(value, cst.Float | cst.Integer):
                clip_arguments, clip_names, value = [value], ["max_norm"], nodes.name("max_norm")
            body.append(nodes.statement("grads, _ = clip_grad_norm(grads, {value})", value=value))
            self.pending_clip = None
        body.append(nodes.statement(f"updates, {o} = {optimizer}.update(grads, {o}, {p})"))
        body.append(nodes.statement(f"return optax.apply_updates({p}, updates), {o}"))
        parameters = [*statics, p, o, "grads", *clip_names]
        decorator = self.decorator(statics, names)

        def make(name: str) -> list[Statement]:
            function = cst.parse_statement(f"{decorator}\ndef {name}({', '.join(parameters)}):\n    pass")
            assert isinstance(function, cst.FunctionDef)
            return [function.with_changes(body=block(body))]

        name = self.unit.helper("optimizer_update", make, f"{decorator}({parameters})" + cst.Module(body).code)
        arguments = [self.read(params), self.read(opt_state), self.read(grads), *clip_arguments]
        if not shared:
            arguments.insert(0, nodes.expression(kind.place.name))
        targets = nodes.tuple_of([self.write(params), self.write(opt_state)], parentheses=False)
        return [nodes.statement("{t} = {c}", t=targets, c=nodes.call(name, *arguments))]


def step_inner(step: Sequence[Statement]) -> list[cst.CSTNode]:
    """The statements of a step with those of its loss function in place."""
    made: list[cst.CSTNode] = []
    for statement in step:
        made += list(statement.body.body) if isinstance(statement, cst.FunctionDef) else [statement]
    return made


def _commented(made: cst.SimpleStatementLine, original: Statement | None) -> cst.SimpleStatementLine:
    if original is None:
        return made
    return made.with_changes(leading_lines=[line for line in original.leading_lines if line.comment is not None])


__all__ = ["KEY", "THE_KEY", "TrainSteps"]
