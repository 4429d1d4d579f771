"""Learning-rate schedules: functions of the number of scheduler steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Kind, Number, Optimizer, Place, Scheduler
from migrate.known.states import COUNT, OPT_STATE, State
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE, Scope
from migrate.lowering.statements.state import StateAccess
from migrate.lowering.unit import SNIPPETS
from migrate.optimizers import CHAINED, COMPOSED, PLATEAU, SCHEDULES, SWA
from migrate.rules.rule import Call, Value, signature
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every
from migrate.targets.template import fill

# Schedules beside those that only scale that change the rates of all parameter groups alike, if they end at zero.
_PROPORTIONAL = ("LambdaLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts")

# A new optimizer knows no rate that it began with: torch raises the same.
_NOT_RESUMED = """if {given} != -1:
    raise KeyError("initial_lr: a new optimizer has none to resume from")
"""


def makes_schedulers(scope: Scope, node: Expr) -> bool:
    """Whether schedulers are made in a list or a dict: `{"linear": LinearLR(opt), "step": StepLR(opt)}[name]`. Torch
    makes each of them, and those that start at another rate set it."""
    displays = every(node, (cst.List, cst.Tuple, cst.Dict))
    return any(scope.torch_name(call.func) in SCHEDULES for display in displays for call in usage.calls(display))


class Schedules(Arguments, StateAccess):
    """Constructors of schedulers."""

    def template_filled(self, text: str, call: Call) -> Expr:
        """A template filled; the snippets that it names are noted."""
        for found in re.findall(r"(?<![.\w])(\w+)[()]", text):
            if found in SNIPPETS:
                self.unit.use_snippet(found)
        return fill(text, call)

    def scheduler(self, name: str, node: cst.Call) -> Value:
        """A torch scheduler as a function; one that follows a metric as an object."""
        node = self.without_verbose(node)
        if name in COMPOSED:
            return self.composed(name, node)
        entry = SCHEDULES[name]
        call = self.bind_call(name, signature("optimizer, " + entry.signature), node.args)
        self.refuse_resumed(call)
        refuse_lists(call)
        optimizer, rate = self.scheduled_optimizer(call)
        root, known = self.root(optimizer), self.script.proportional
        ends = "eta_min" in call.defaults and not nodes.is_literal(call.node("eta_min"), 0.0) and call.has("eta_min")
        in_proportion = entry.scales or (entry.torch in _PROPORTIONAL and not ends)
        known[root] = known.get(root, True) and in_proportion
        call.bound = {**call.bound, "lr": Value(rate, Number()), **_translated(call)}
        cycles = self.cycled(call, optimizer) if entry.momentum else ""
        if cycles:
            self.script.cycled[self.root(optimizer)] = cycles
            self.pending_cycle = self.template_filled(entry.momentum, call)
        goes_on = root in self.script.set_by_hand and not entry.closed
        if goes_on and not entry.going_on:
            raise Unsupported("MIG302", f"{name} of an optimizer whose rate is set by other means as well")
        made = _in_one(self.template_filled(entry.going_on if goes_on else entry.template, call))
        scales = entry.scales and not goes_on
        kind = Scheduler(NOWHERE, optimizer, entry.starts, scales, cycles, follows=goes_on, closed=entry.closed)
        return Value(made, kind)

    def without_verbose(self, node: cst.Call) -> cst.Call:
        """A scheduler that does not print, which torch's have done until 2.6."""
        told = next((arg for arg in node.args if arg.keyword is not None and arg.keyword.value == "verbose"), None)
        if told is None:
            return node
        if not nodes.is_literal(told.value, False):
            said = nodes.code(told.with_changes(comma=cst.MaybeSentinel.DEFAULT))
            self.unit.report(Unsupported("MIG518", said), node)
        return node.with_changes(args=[arg for arg in node.args if arg is not told])

    def scheduled_optimizer(self, call: Call) -> tuple[Place, Expr]:
        """The optimizer whose rate changes, and the rate that it starts with."""
        return self.optimizer_of(call.api, call.value("optimizer"))

    def optimizer_of(self, api: str, given: Value) -> tuple[Place, Expr]:
        """The same of what a scheduler is given."""
        kind = given.kind
        if not isinstance(kind, Optimizer):
            raise Unsupported("MIG302", f"{api} of {nodes.code(given.node)}, which is no known optimizer")
        roots = self.roots(kind.place)
        self.script.scheduled |= roots
        known = self.rates.get(self.root(kind.place)) if len(roots) == 1 else None
        seen = known is not None and self.means_the_same(known, self.root(kind.place))
        return kind.place, known if known is not None and seen else self.present_base(kind)

    def means_the_same(self, rate: Expr, optimizer: Place) -> bool:
        """Whether the rate of an optimizer says the same in this scope as where it was written."""
        scope = self.script.rate_scopes.get(optimizer, self.scope)
        own = self.facts.own_names if self.facts is not None else frozenset[str]()
        return scope == self.scope or all(name in self.unit.constants and name not in own for name in usage.loads(rate))

    def present_base(self, kind: Optimizer) -> Expr:
        """The rate that an optimizer has when its scheduler is made, where another function has made it."""
        if ("optimizer", kind.place) in [(what, place) for what, place, _ in self.pending]:
            raise Unsupported("MIG302", f"the learning rate of {kind.place.name} is not known here")
        name = self.unit.own("base_rate")
        taken = nodes.statement(f"{name} = float({{rate}})", rate=rate_in_state(self, kind.place))
        if not any(nodes.code(taken) == nodes.code(each) for each in self.before):
            self.before.append(taken)
        return nodes.name(name)

    def refuse_resumed(self, call: Call) -> None:
        """Declines a schedule that starts elsewhere than at its beginning; where numbers tell, as torch does then."""
        name, facts = nodes.dotted(call.node("last_epoch")), self.facts
        default = facts.defaults.get(name or "") if facts is not None else None
        if facts is not None and nodes.is_literal(default, -1) and name not in usage.stores(facts.node.body):
            given = [site.bound[name] for site in facts.calls if name is not None and name in site.bound]
            if all(nodes.is_literal(one, -1) for one in given):
                return
        given = call.node("last_epoch")
        if nodes.literal(given) is ... and self.context in HOST_CONTEXTS and not self.nested and not self.loads(call):
            self.before += nodes.statements(_NOT_RESUMED, given=given)
            return
        call.only("last_epoch", -1)

    def loads(self, call: Call) -> bool:
        """Whether the file gives the optimizer a state, which has the rate that a schedule goes on from."""
        own = (nodes.dotted(call.node("optimizer")) or "").rpartition(".")[2]
        paths = [nodes.dotted(one.func) or "" for one in usage.calls(self.unit.source.module)]
        return any(path.endswith(f"{own}.load_state_dict") for path in paths)

    def cycled(self, call: Call, optimizer: Place) -> str:
        """The hyperparameter that goes up and down beside the rate: the momentum, or the first beta of Adam."""
        if nodes.is_literal(call.node("cycle_momentum"), False):
            return ""
        call.only("cycle_momentum", True)
        found = self.script.momenta.get(self.root(optimizer), "")
        if not found:
            raise Unsupported("MIG302", f"{call.api}: cycle_momentum of an optimizer without momentum")
        return found

    def composed(self, name: str, node: cst.Call) -> Value:
        """Schedulers made of others, and the one that follows a metric."""
        call = self.bind_call(name, signature(COMPOSED[name]), node.args)
        if name == PLATEAU:
            optimizer, rate = self.scheduled_optimizer(call)
            if isinstance(call.kind("min_lr"), Items):
                raise Unsupported("MIG302", f"{name}: a min_lr for each parameter group")
            given = {key: call.node(key) for key in call.bound if key != "optimizer" and call.has(key)}
            made = with_snippets(self, nodes.call("ReduceLROnPlateau", rate, **given), ["ReduceLROnPlateau"])
            return Value(made, Scheduler(NOWHERE, optimizer, plateau=True))
        if name == SWA:
            return self.annealed(call)
        parts, kinds = self.parts(call)
        for kind in kinds:
            if kind.place != NOWHERE:
                self.script.composed.add(kind.place)
        optimizer = kinds[0].optimizer
        rate = self.rates.get(self.root(optimizer))
        alone = any(kind.is_object or kind.cycles or kind.follows for kind in kinds)
        if alone or any(kind.optimizer != optimizer for kind in kinds) or rate is None:
            raise Unsupported("MIG302", f"{name} of such schedulers")
        if not self.means_the_same(rate, self.root(optimizer)):
            raise Unsupported("MIG302", f"{name} in another function than the optimizer")
        if name == CHAINED:
            if not all(kind.scales for kind in kinds):
                raise Unsupported("MIG302", f"{name} of schedulers that do more than scale the rate")
            text = "lambda epoch: {rate} * math.prod(schedule(epoch) / {rate} for schedule in {parts})"
            made = nodes.expression(text, rate=rate, parts=parts)
            return Value(made, Scheduler(NOWHERE, optimizer, starts=True, scales=True))
        self.refuse_resumed(call)
        made = nodes.call("optax.join_schedules", parts, call.node("milestones"))
        return Value(made, Scheduler(NOWHERE, optimizer, starts=True))

    def annealed(self, call: Call) -> Value:
        """`SWALR(...)`, which goes on from the rate that another scheduler has left."""
        self.refuse_resumed(call)
        optimizer, _ = self.scheduled_optimizer(call)
        if nodes.is_literal(call.node("anneal_epochs"), 0) or isinstance(call.kind("swa_lr"), Items):
            raise Unsupported("MIG302", f"{call.api}: anneal_epochs=0, or a rate for each parameter group")
        self.script.proportional[self.root(optimizer)] = False
        call.bound = {**call.bound, **_translated(call)}
        text = "swa_schedule({swa_lr}, anneal_epochs={anneal_epochs?10}, linear={anneal_strategy?False})"
        return Value(self.template_filled(text, call), Scheduler(NOWHERE, optimizer, follows=True))

    def parts(self, call: Call) -> tuple[Expr, Sequence[Scheduler]]:
        """The schedulers in a list."""
        kind = call.kind("schedulers")
        kinds = list(kind.items or ()) if isinstance(kind, Items) else []
        found = [part for part in kinds if isinstance(part, Scheduler)]
        if not found or len(found) != len(kinds):
            raise Unsupported("MIG302", f"{call.api}: schedulers that are not written in a list")
        return call.node("schedulers"), found

    def present_rate(self, kind: Scheduler, node: Expr) -> Expr:
        """The rate that a scheduler has set, as a number."""
        if kind.plateau:
            return nodes.expression("{s}.lr", s=node)
        if kind.own:
            return rate_of_own(node)
        if kind.follows:
            return nodes.expression("{rate}.item()", rate=rate_in_state(self, kind.optimizer))
        return nodes.expression("float({s}({n}))", s=node, n=self.read(State(COUNT, kind.place)))


def _in_one(made: Expr) -> Expr:
    """`lambda step: 0.1 * 0.9**step` for `lambda epoch: 0.1 * (lambda step: 0.9**step)(epoch)`."""
    match made:
        case cst.Lambda(
            params=cst.Parameters(params=[cst.Param(name=cst.Name(outer))]),
            body=cst.BinaryOperation(
                left=rate,
                operator=cst.Multiply(),
                right=cst.Call(
                    func=cst.Lambda(params=cst.Parameters(params=[cst.Param(default=None)]) as params, body=factor),
                    args=[cst.Arg(value=cst.Name(given), star="", keyword=None)],
                ),
            ),
        ) if given == outer and outer not in usage.loads(factor):
            name = params.params[0].name.value
            if name not in usage.loads(rate):
                body = nodes.expression("{rate} * {factor}", rate=rate, factor=factor)
                return made.with_changes(params=params, body=body)
    return made


def refuse_mixed(kind: Kind) -> None:
    """Declines a use of one of several schedulers of which only some follow a metric, or change the momentum, too; and
    of one that no variable holds, beside which its steps are counted."""
    if isinstance(kind, Scheduler) and kind.place == NOWHERE:
        raise Unsupported("MIG404", "a scheduler that has no name of its own")
    if isinstance(kind, Scheduler) and kind.mixed:
        raise Unsupported("MIG302", f"{kind.place.name} is one of several schedulers that are not stepped alike")


def refuse_lists(call: Call) -> None:
    """Declines what is given to each parameter group on its own: `LambdaLR(optimizer, [warm, cool])`."""
    for name in ("lr_lambda", "max_lr", "base_lr"):
        if name in call.bound and isinstance(call.kind(name), Items):
            raise Unsupported("MIG302", f"{call.api}: {name} of each parameter group")


def _translated(call: Call) -> dict[str, Value]:
    """Arguments in the form that the schedules of the output take."""
    found: dict[str, Value] = {}
    if "anneal_strategy" in call.defaults:
        call.only("anneal_strategy", "cos", "linear")
        linear = nodes.is_literal(call.node("anneal_strategy"), "linear")
        found["anneal_strategy"] = Value(nodes.name(str(linear)), Number())
    if "steps_per_epoch" in call.defaults and not call.has("total_steps"):
        total = nodes.expression("{a} * {b}", a=call.node("epochs"), b=call.node("steps_per_epoch"))
        found["total_steps"] = Value(total, Number())
    if "scale_fn" in call.defaults:
        call.only("scale_fn", None)
        call.only("scale_mode", "cycle")
    return found


def rate_of_own(node: Expr) -> Expr:
    """The rate that a scheduler of the script's own has set."""
    return nodes.expression('{s}.optimizer.param_groups[0]["lr"]', s=node)


def rate_in_state(scope: StateAccess, optimizer: Place) -> Expr:
    """The rate that an optimizer keeps in its state."""
    if (scope.root(optimizer), "lr") in scope.script.separate:
        raise Unsupported("MIG302", f"the rate of {optimizer.name}, whose parameter groups have rates of their own")
    state = scope.read(State(OPT_STATE, optimizer))
    return nodes.expression('optax.tree_utils.tree_get({state}, "learning_rate")', state=state)
