"""Numbers that Python or numpy draws inside what jit traces: jit would draw them once.

A draw that such code makes exactly once is made on the host before the call instead, and passed in under the name
`drawn`: through the functions and the forward pass on the way, as an argument of the training step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import Draw, FunctionFacts
from migrate.known.kinds import Kind, Number, Plain, Tensor
from migrate.known.qualified import spelled
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.results_followed import function_called, result_from_outside
from migrate.lowering.models.object_history import class_of_object
from migrate.lowering.scope import Scope
from migrate.lowering.statements.blocks import run_before
from migrate.lowering.updates.region import Region
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement

DRAWS = ("random.", "numpy.random.")
GENERATORS = ("RandomState", "default_rng", "Generator", "Random")  # what makes generators that draw by themselves
_HOST_ONLY = (*DRAWS, "time.")

# Draws of one whole number, which may steer a loop or make a shape: jit must know it.
_WHOLE = {"random.randint"}
_REAL = {"random.random", "random.uniform"}
# Draws of numpy, with the position of their size: without one they give a number.
_SIZE_AT = {
    **dict.fromkeys(("random", "random_sample", "standard_normal"), 0),
    **dict.fromkeys(("rand", "randn"), 0),
    **dict.fromkeys(("normal", "uniform", "laplace", "beta", "gamma", "binomial"), 2),
    **dict.fromkeys(("exponential", "poisson"), 1),
    "randint": 2,
}


class HostDraws(Scope):
    """Draws that are made on the host."""

    def host_only(self, path: str) -> str:
        """The full name of a function that draws or reads a clock; "" for others."""
        head, _, rest = path.partition(".")
        kind = self.env.lookup(head)
        if kind is not None and not (isinstance(kind, Plain) and kind.what in ("module", "imported")):
            return ""
        origin = self.unit.imported.get(head, {"np": "numpy"}.get(head, head))
        name = f"{origin}.{rest}" if rest else origin
        return name if name.startswith(_HOST_ONLY) else ""

    def drawn(self, node: cst.Call, name: str) -> Value:
        """A draw inside what jit traces: a parameter, which whoever calls it draws."""
        kind = _kind_of(node, name)
        if kind is None:
            raise Unsupported("MIG302", f"{name} inside a forward pass would be called once, when it is traced")
        return self.from_outside("drawn", node, kind)

    def from_outside(self, wanted: str, node: Expr, kind: Kind) -> Value:
        """What the caller is to make: a parameter of this function, or an input of the training step."""
        turns = self.turns_of_range(node) if kind == Tensor("float", 0) else None
        if turns is not None:
            return self.drawn_for_turns(wanted, node, *turns)
        if not self.surely_once():
            raise Unsupported(
                "MIG302",
                f"{nodes.code(node)} in a loop or a branch of a forward pass: how often it is drawn is not known",
            )
        if self.cls and self.script.inside_others(self.cls):
            raise Unsupported(
                "MIG302", f"{nodes.code(node)} in a module inside another one, which nobody can pass it to"
            )
        region = self.region
        name = self.name_of_draw(wanted, region.draws if region is not None else self._found_draws())
        if region is not None:
            if set(usage.loads(node)) & region.inside:
                raise Unsupported("MIG302", f"{nodes.code(node)} depends on what the loss function computes")
            if region.replaying:
                raise Unsupported("MIG401", "the gradient goes through random draws of an earlier step")
            region.draws.append(Draw(name, node, kind))
            if isinstance(kind, Number):
                region.constants.add(name)
        else:
            assert self.facts is not None
            self.facts.found_draws.append(Draw(name, self.in_terms_of_parameters(self.facts, node), kind))
        return Value(nodes.name(name), kind)

    def drawn_for_turns(self, wanted: str, node: Expr, turn: Expr, loop: cst.Call, index: Expr) -> Value:
        """A draw in each turn of a loop: the caller draws for all of them."""
        assert self.facts is not None
        found = self.facts.found_draws
        in_turns = [(draw.name, draw.site[0]) for draw in found if draw.site is not None and draw.site[1] is loop]
        if any(other is not node for _, other in in_turns):
            raise Unsupported("MIG302", f"{nodes.code(node)} is not the only draw in a turn of its loop")
        known = next((name for name, _ in in_turns), None)
        if known is None:
            known = self.name_of_draw(wanted, found)
            every = nodes.expression("np.array([{draw} for {turn} in {loop}])", draw=node, turn=turn, loop=loop)
            every = self.in_terms_of_parameters(self.facts, every)
            found.append(Draw(known, every, Tensor("float", 1), (node, loop)))
        return Value(nodes.expression(f"{known}[{{i}}]", i=index), Tensor("float", 0))

    def turns_of_range(self, node: Expr) -> tuple[Expr, cst.Call, Expr] | None:
        """Of the loop whose every turn comes by a draw once: its variable, "_" where the draw does not read that, its
        `range(...)`, and the number of the turn; None where there is no such loop."""
        if self.nested or self.conditional or len(self.blocks) != self.top + 1 or self.region is not None:
            return None
        outer, inner = self.blocks[-2:]
        loop = outer.statements[outer.index]
        around = [statement for block in self.blocks[:-1] for statement in block.statements[: block.index]]
        if self.facts is None or any(map(suites.may_leave, [*around, *inner.statements])):
            return None
        match loop:
            case cst.For(
                target=cst.Name(value=turn), iter=cst.Call(func=cst.Name("range"), args=args) as counted, orelse=None
            ) if 1 <= len(args) <= 2 and turn not in usage.stores(inner.statements):
                start = args[0].value if len(args) == 2 else cst.Integer("0")
                text = "{turn}" if nodes.is_literal(start, 0) else "{turn} - {start}"
                unread = nodes.name(turn if turn in usage.loads(node) else "_")
                return unread, counted, nodes.expression(text, turn=nodes.name(turn), start=start)
        return None

    def name_of_draw(self, wanted: str, draws: Sequence[Draw]) -> str:
        """A name for what is drawn that no other draw has, nor the script."""
        return usage.unused_name(wanted, {draw.name for draw in draws} | self.unit.taken)

    def _found_draws(self) -> Sequence[Draw]:
        return self.facts.found_draws if self.facts is not None else ()

    def surely_once(self) -> bool:
        """Whether the place at hand is evaluated exactly once each time that its function runs."""
        if self.nested or self.conditional or len(self.blocks) != self.top or self.walked:
            return False
        if self.region is not None:
            return True
        return self.facts is not None and not any(map(suites.may_leave, run_before(self.blocks)))

    def in_terms_of_parameters(self, facts: FunctionFacts, node: Expr) -> Expr:
        """An expression as the caller can write it, but for the parameters themselves."""
        parameters = {parameter.name.value for parameter in facts.node.params.params}
        as_given = parameters - {*usage.stores(run_before(self.blocks))}
        bound = [name for name in usage.stores(facts.node.body) if name not in as_given]
        for _ in range(8):
            local = {name for name in usage.loads(node) if name in bound}
            if not local:
                break
            values = {name: self.env.definitions.get(name) for name in local}
            known = {name: nodes.parenthesized(value) for name, value in values.items() if value is not None}
            if len(known) < len(local) or any(bound.count(name) != 1 for name in local) or local & parameters:
                raise Unsupported("MIG302", f"{nodes.code(node)} depends on what {spelled(facts.qualname)} computes")
            node = nodes.substituted(node, known)
        if "self" in usage.loads(node):
            raise Unsupported("MIG302", f"{nodes.code(node)} depends on the module, which the caller may not have")
        return node

    def draws_for(self, facts: FunctionFacts, args: Sequence[cst.Arg], method: bool) -> dict[str, Expr]:
        """The arguments for what a function needs drawn: made here on the host, else passed on."""
        if not facts.draws:
            return {}
        given = self.given_to(facts, args, method)
        made: dict[str, Expr] = {}
        for draw in facts.draws:
            node = nodes.substituted(draw.node, given)
            made[draw.name] = (
                self.from_outside(draw.name, node, draw.kind) if self.under_jit else self.expr(node)
            ).node
        return made

    @staticmethod
    def given_to(facts: FunctionFacts, args: Sequence[cst.Arg], method: bool) -> Mapping[str, Expr]:
        """What the parameters of a function are in a call, as the caller writes it."""
        names = facts.parameter_names[1:] if method else facts.parameter_names
        given = facts.defaults
        bound = zip(argument_names(args, names), args, strict=True)
        given |= {name: arg.value for name, arg in bound if name}
        return {name: nodes.parenthesized(value) for name, value in given.items()}

    def undrawn(self, node: Expr) -> Expr:
        """An expression with samples in the place of draws: an example that took some would change all that the script
        draws later."""
        return nodes.visited(node, _Undrawn(self))

    def drawn_before(self, region: Region, draws: Sequence[Draw]) -> list[Statement]:
        """The draws of a training step, in statements before it."""
        if draws and self.reordered(region):
            raise Unsupported("MIG401", "random draws of the loss and of other statements would change their order")
        made: list[Statement] = []
        for draw in draws:
            value = self.expr(draw.node)
            self.env.kinds[draw.name] = draw.kind
            made.append(nodes.statement(f"{draw.name} = {{value}}", value=value.node))
        return made

    def reordered(self, region: Region) -> bool:
        """Whether statements that draw on the host move to the other side of the step."""
        order = {id(statement): number for number, statement in enumerate(region.statements)}
        traced = [order[id(statement)] for part in region.parts for statement in part.traced]
        before = [order[id(s)] for s in region.before if self.draws_on_host(s)]
        after = [order[id(s)] for part in region.parts for s in part.after if self.draws_on_host(s)]
        return any(number > min(traced) for number in before) or any(number < max(traced) for number in after)

    def draws_inside(self, node: cst.CSTNode) -> bool:
        """Whether functions of the project that code calls draw with Python or numpy."""
        seen, waiting = set[cst.FunctionDef](), [node]
        while waiting:
            new = {one for call in usage.calls(waiting.pop()) for one in self.may_run(call)} - seen
            seen |= new
            waiting += [one.body for one in new]
        return any(self.draws_on_host(one.body) for one in seen)

    def may_run(self, call: cst.Call) -> list[cst.FunctionDef]:
        """The functions and methods of the project's own that a call may run."""
        facts = function_called(self, call)
        if facts is not None or not isinstance(call.func, cst.Attribute):
            return [facts.node] if facts is not None else []
        cls = class_of_object(self, nodes.dotted(call.func.value) or "")
        return self.script.own_classes.reached(cls, call.func.attr.value) if cls is not None else []

    def draws_on_host(self, statement: cst.CSTNode) -> bool:
        """Whether a statement draws with Python or numpy."""
        return any(self.host_only(nodes.dotted(call.func) or "") for call in usage.calls(statement))


def _kind_of(node: cst.Call, name: str) -> Kind | None:
    """What a draw gives: a number that jit must know, an array, or None where it cannot be passed in."""
    if any(arg.star for arg in node.args):
        return None
    if name in _WHOLE:
        return Number()
    if name in _REAL:
        return Tensor("float", 0)
    module, _, short = name.rpartition(".")
    if module != "numpy.random" or short not in _SIZE_AT:
        return None
    placed = sum(arg.keyword is None for arg in node.args)
    sized = placed > _SIZE_AT[short] or any(arg.keyword and arg.keyword.value == "size" for arg in node.args)
    if short == "randint":
        return Tensor("int") if sized else Number()
    return Tensor("float", -1 if sized else 0)


# torch's draws, and what has their shapes and takes their arguments
_ZEROS = {f"torch.{name}{like}": f"zeros{like}" for name in ("rand", "randn") for like in ("", "_like")}


class _Undrawn(cst.CSTTransformer):
    def __init__(self, scope: HostDraws) -> None:
        super().__init__()
        self.scope = scope

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func, torchs = updated_node.func, self.scope.torch_name(original_node.func) or ""
        if torchs in _ZEROS and isinstance(func, cst.Attribute) and not any(arg.keyword for arg in updated_node.args):
            return updated_node.with_changes(func=func.with_changes(attr=cst.Name(_ZEROS[torchs])))
        if torchs == "torch.randint":
            return _integers(updated_node) or updated_node
        name = self.scope.host_only(nodes.dotted(func) or "")
        return _sample(updated_node, name) or updated_node if name else updated_node

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        drawn = isinstance(original_node.value, cst.Call) and self.scope.draws_inside(original_node.value)
        inside = result_from_outside(self.scope, original_node) if drawn else None
        if inside is not None:
            return self.scope.undrawn(inside)
        index = original_node.slice[0].slice if len(original_node.slice) == 1 else None
        drawn_rows = isinstance(index, cst.Index) and self.draws_rows(index.value)
        return self.one_row(updated_node.value) if drawn_rows else updated_node

    def draws_rows(self, index: Expr) -> bool:
        """Whether an index is several numbers that are drawn: `np.random.choice(n, 32)`, `torch.randperm(n)[:32]`."""
        while isinstance(index, cst.Subscript) and isinstance(index.slice[0].slice, cst.Slice) and not index.slice[1:]:
            index = index.value
        if not isinstance(index, cst.Call):
            return False
        if self.scope.host_only(nodes.dotted(index.func) or ""):
            return _draws_rows(index)
        torchs = self.scope.torch_name(index.func)
        sizes = [arg.value for arg in index.args if arg.keyword is None or arg.keyword.value == "size"]
        whole = (
            torchs == "torch.randint"
            and bool(sizes)
            and isinstance(sizes[-1], cst.Tuple)
            and len(sizes[-1].elements) == 1
        )
        return torchs == "torch.randperm" or whole

    def one_row(self, node: Expr) -> Expr:
        """The first row of a tensor, with its axis: `torch.zeros(1, 4)` of `torch.zeros(32, 4)`."""
        sizes = node.args if isinstance(node, cst.Call) and self.scope.torch_name(node.func) == "torch.zeros" else ()
        if len(sizes) < 2 or any(arg.keyword or arg.star for arg in sizes):
            return nodes.expression("{x}[:1]", x=node)
        return node.with_changes(args=[sizes[0].with_changes(value=cst.Integer("1")), *sizes[1:]])


def _integers(call: cst.Call) -> Expr | None:
    """`torch.zeros(size, dtype=torch.long)` for `torch.randint(high, size)`; None where its size is not at hand."""
    plain = [arg for arg in call.args if arg.keyword is None]
    told = {arg.keyword.value: arg for arg in call.args if arg.keyword is not None}
    if any(arg.star for arg in call.args) or not told.keys() <= {"low", "high", "size", "dtype", "device"}:
        return None
    size = told.get("size") or (plain[-1] if len(plain) > 1 else None)
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    if size is None or owner is None:
        return None
    dtype = told["dtype"].value if "dtype" in told else cst.Attribute(owner, cst.Name("long"))
    func = cst.Attribute(owner, cst.Name("zeros"))
    return cst.Call(func, nodes.arguments([size.value], {"dtype": dtype}))


def _draws_rows(node: cst.Call) -> bool:
    """Whether a call draws several numbers in a row: `np.random.choice(n, 32)`. Of an empty buffer it would raise."""
    short = (nodes.dotted(node.func) or "").rpartition(".")[2]
    placed = [arg.value for arg in node.args if arg.keyword is None]
    size = [arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == "size"]
    found = (size or placed[_ROWS_AT[short] :]) if short in _ROWS_AT else []
    return short == "permutation" or (bool(found) and not isinstance(found[0], cst.Tuple))


_ROWS_AT = {"choice": 1, "randint": 2}


def _sample(node: cst.Call, name: str) -> Expr | None:
    """What stands for a draw in an example: zeros, and the highest whole number, which makes the most layers run."""
    kind = _kind_of(node, name)
    if kind is None:
        return None
    short = name.rpartition(".")[2]
    placed = [arg.value for arg in node.args if arg.keyword is None]
    if isinstance(kind, Number):
        text = "{high}" if name in _WHOLE else "{high} - 1"
        return nodes.expression(text, high=nodes.parenthesized(node.args[-1].value))
    if name in _REAL or kind == Tensor("float", 0):
        return cst.Float("0.0")
    named = [arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == "size"]
    size = nodes.tuple_of(placed) if short in ("rand", "randn") else (named or placed[_SIZE_AT[short] :])[0]
    whole = [nodes.name("int")] if isinstance(kind, Tensor) and kind.dtype == "int" else []
    return nodes.call(f"{_module(node)}.zeros", size, *whole)


def _module(node: cst.Call) -> str:
    """What numpy is called: `np` of `np.random.normal`."""
    return (nodes.dotted(node.func) or "").partition(".")[0]
