"""Models, optimizers and schedulers in lists, tuples and dicts: `for optimizer in optimizers: optimizer.step()`.

State belongs to an object with a name. What is made in a display gets one; a loop over members is unrolled, and an item
is the member itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Function, Kind, Leaf, Members, Model, Optimizer, Scheduler, Tensor
from migrate.lowering.expressions.elements import display
from migrate.lowering.modules.builders import Builders
from migrate.lowering.plainer.loops_written_out import LoopsWrittenOut, bound_names
from migrate.lowering.plainer.unnamed import Unnamed, short_name
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.unit import Environment
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.remembering import remembered
from migrate.syntax.walking import every

_MOST = 16  # turns that are written out
_CHANGING = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "reverse", "sort"}
)


def named_members(env: Environment) -> dict[str, Members]:
    """The lists, tuples and dicts of objects that a scope knows by names."""
    found: dict[str, Members] = {}
    scope: Environment | None = env
    while scope is not None:
        kinds = ((name, kind) for name, kind in scope.kinds.items() if isinstance(kind, Members))
        found = {name: kind for name, kind in kinds if env.lookup(name) is kind} | found
        scope = scope.outer
    return found


def refuse_changing(kind: Kind, node: cst.Call) -> None:
    """Declines to change which objects are in a list or a dict."""
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if isinstance(kind, Members) and method in _CHANGING:
        raise Unsupported("MIG401", f"{nodes.code(node)}: which objects are trained changes as the script runs")


class MemberLoops(Unnamed, Builders, LoopsWrittenOut):
    """Statements about members of a list or a dict, in terms of their names."""

    def by_name(self, statement: Statement, members: Mapping[str, Members]) -> list[Statement]:
        """A statement with members by their names, and loops over them unrolled; itself where it has none."""
        if self.context not in HOST_CONTEXTS or isinstance(statement, cst.FunctionDef | cst.ClassDef):
            return [statement]
        apart = self.members_apart(statement)
        if apart is None:
            apart = self.asked_in_turn(statement)
        if apart is not None:
            return apart
        known = {path: kind for path, kind in members.items() if path in usage.paths(statement)}
        if not known and not any(map(self.lists_objects, _displays(statement))):
            return [statement]
        key = (statement, tuple(sorted((path, kind.names, kind.keys) for path, kind in known.items())))
        if key not in self.unit.unrolled:
            self.unit.unrolled[key] = self.unrolled(statement)
        return self.unit.unrolled[key]

    def asked_in_turn(self, statement: Statement) -> list[Statement] | None:
        """`for p in parameters: p.requires_grad = True` over a list of tensors that have names: each asks for itself,
        and from then on the list is of them. None for other statements."""
        if not isinstance(statement, cst.For) or statement in self.unit.apart or statement.orelse is not None:
            return self.unit.apart.get(statement) if isinstance(statement, cst.For) else None
        listing, each = statement.iter, statement.target
        listed = self.env.definitions.get(listing.value) if isinstance(listing, cst.Name) else None
        if not isinstance(listed, cst.List | cst.Tuple) or not isinstance(each, cst.Name):
            return None
        tensors = nodes.elements(listed)
        named = all(isinstance(one, cst.Name) and isinstance(self.kind_of(one), Tensor) for one in tensors)
        body = suites.suite_of(statement.body.body)
        if not named or not tensors or not all(_asks_of(one, each.value) for one in body):
            return None
        made: list[Statement] = [_line(None, nodes.expression("{t}.requires_grad_()", t=one)) for one in tensors]
        made.append(_line(listing, listed))
        made[0] = made[0].with_changes(leading_lines=statement.leading_lines)
        self.unit.apart[statement] = [self.placed(one, statement) for one in made]
        return self.unit.apart[statement]

    def unrolled(self, statement: Statement) -> list[Statement]:
        """A statement with the loops in it unrolled that go through members."""
        if isinstance(statement, cst.SimpleStatementLine):
            return self.listed_calls(statement) or [self.placed(nodes.visited(statement, _Items(self)), statement)]
        if isinstance(statement, cst.For):
            turns = self.member_turns(statement.target, statement.iter) if self.repeats(statement) else None
            if turns is not None:
                made = [one for turn in turns for one in self.one_turn(statement, turn)]
                made[0] = self.placed(made[0].with_changes(leading_lines=statement.leading_lines), made[0])
                return made
        made = statement
        if isinstance(statement, cst.For | cst.While | cst.With | cst.If):
            inner = [one for each in suites.suite_of(statement.body.body) for one in self.unrolled(each)]
            made = made.with_changes(body=suites.block_of(statement.body, inner))
        if isinstance(statement, cst.If) and isinstance(statement.orelse, cst.If):
            (orelse,) = self.unrolled(statement.orelse)
            made = made.with_changes(orelse=orelse)
        elif isinstance(statement, cst.If) and statement.orelse is not None:
            inner = [one for each in suites.suite_of(statement.orelse.body.body) for one in self.unrolled(each)]
            block = suites.block_of(statement.orelse.body, inner)
            made = made.with_changes(orelse=statement.orelse.with_changes(body=block))
        return [self.placed(made, statement)]

    def repeats(self, loop: cst.For) -> bool:
        """Whether a loop does nothing but run its statements for each of its turns, and its body is about members."""
        names = set(usage.target_names(loop.target))
        leaves = every(loop.body, (cst.Break, cst.Continue), closed=(cst.FunctionDef, cst.For, cst.While))
        if loop.orelse is not None or any(True for _ in leaves) or names & _bound_anew(loop.body):
            return False
        if not self.about_members(names, loop.iter, loop.body):
            return False
        return not any(True for _ in every(loop.body, (cst.FunctionDef, cst.ClassDef, cst.Lambda)))

    def about_members(self, names: Collection[str], iterated: Expr, body: cst.CSTNode) -> bool:
        """Whether a loop goes through members, or takes them by its variables."""
        listed = any(isinstance(self.kind_of_name(path), Members) for path in usage.paths(iterated))
        items = (each for each in every(body, cst.Subscript) if set(usage.loads(each.slice)) & set(names))
        taken = any(isinstance(self.kind_of(each.value), Members) for each in items)
        return listed or taken or self.lists_objects(iterated)

    def lists_objects(self, node: Expr) -> bool:
        """Whether an expression is a display of objects, or of rows with one: `for net in (a, b)`, `for name, net in
        [("a", a), ("b", b)]`, `zip(names, [a, b])`."""
        if isinstance(node, cst.Call):
            called = [arg.value for arg in node.args]
            receiver = [node.func.value] if isinstance(node.func, cst.Attribute) else []
            return any(map(self.lists_objects, [*called, *receiver]))
        values = [e.value for e in node.elements] if isinstance(node, cst.Tuple | cst.List | cst.Dict) else []
        return bool(values) and all(self.is_object(one) or self.is_row(one) for one in values)

    def is_row(self, node: Expr) -> bool:
        """Whether an expression is a tuple or a list of which some element is an object."""
        return isinstance(node, cst.Tuple | cst.List) and any(map(self.is_object, nodes.elements(node)))

    def one_turn(self, loop: cst.For, values: Mapping[str, Expr]) -> list[Statement]:
        """The statements of one turn of a loop."""
        objects = {name: value for name, value in values.items() if self.is_object(value)}
        left = {name: value for name, value in values.items() if name not in objects}
        made: list[Statement] = []
        for each in suites.suite_of(loop.body.body):
            copy = nodes.visited(nodes.substituted(each, objects), _Items(self, left))
            self.all_stand_for(copy, each)
            made += self.unrolled(copy)
        read = set(usage.loads(made))
        said = [_line(nodes.name(name), value) for name, value in left.items() if name in read]
        return [*(self.placed(one, loop) for one in said), *made]

    def is_object(self, node: Expr) -> bool:
        """Whether an expression is a member."""
        return isinstance(self.kind_of(node), Model | Optimizer | Scheduler | Leaf)

    def listed_calls(self, line: cst.SimpleStatementLine) -> list[Statement] | None:
        """`[opt.step() for opt in optimizers]` as a statement: one for each turn."""
        small = line.body[0]
        comp = small.value if isinstance(small, cst.Expr) else None
        if not isinstance(comp, cst.ListComp) or comp.for_in.ifs or comp.for_in.inner_for_in is not None:
            return None
        loop = cst.For(comp.for_in.target, comp.for_in.iter, cst.IndentedBlock([_line(None, comp.elt)]))
        made = self.unrolled(self.placed(loop.with_changes(leading_lines=line.leading_lines), line))
        return None if isinstance(made[0], cst.For) else made

    def placed(self, made: Statement, original: Statement) -> Statement:
        """A statement at the place of the one that it stands for."""
        self.unit.stands_for(made, original)
        return made

    # -- what is made in a display ------------------------------------------------------------------------------------

    def members_apart(self, statement: Statement) -> list[Statement] | None:
        """`nets = [Net(), Net()]`: a statement for each object, and one for the list. None for other statements."""
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1 or self.building:
            return None
        small = statement.body[0]
        if not isinstance(small, cst.Assign) or len(small.targets) != 1 or statement in self.unit.apart:
            return self.unit.apart.get(statement) if isinstance(small, cst.Assign) else None
        path, value = nodes.dotted(small.targets[0].target), small.value
        if path is None or not usage.calls(value):
            return None
        received = self.members_received(statement, small, value)
        if received is not None:
            return received
        if isinstance(value, cst.ListComp | cst.DictComp):
            value = self.displayed(value) if self.makes_object(_each(value)) else value
        if not isinstance(value, cst.List | cst.Tuple | cst.Dict):
            return None
        plain = all(isinstance(each, cst.Element | cst.DictElement) for each in value.elements)
        if not plain or not any(self.makes_object(each.value) for each in value.elements) or self.handed_on(path):
            return None
        taken = {*self.unit.taken, *usage.stores(self.blocks[0].statements)}
        made: list[Statement] = []
        elements: list[cst.BaseElement | cst.BaseDictElement] = []
        for number, each in enumerate(value.elements, 1):
            if self.makes_object(each.value):
                key = nodes.literal(each.key) if isinstance(each, cst.DictElement) else number
                word = str(key) if str(key).isidentifier() or isinstance(key, int) else str(number)
                name = usage.unused_name(f"{_one_of(path)}_{word}", taken)
                taken.add(name)
                if path in self.unit.constants:
                    self.unit.constants.add(name)
                made.append(_line(nodes.expression(name), each.value))
                each = each.with_changes(value=nodes.expression(name))
            elements.append(each)
        made.append(_line(small.targets[0].target, value.with_changes(elements=elements)))
        made[0] = made[0].with_changes(leading_lines=statement.leading_lines)
        self.unit.apart[statement] = [self.placed(one, statement) for one in made]
        return made

    def handed_on(self, path: str) -> bool:
        """Whether a list is filled further, or given to torch, as the layers of an nn.Sequential are."""
        for call in usage.calls(cst.Module(self.blocks[0].statements)):
            given = any(
                nodes.dotted(arg.value) == path and (arg.star or self.torch_name(call.func)) for arg in call.args
            )
            method = call.func if isinstance(call.func, cst.Attribute) else None
            if given or (method and method.attr.value in _CHANGING and nodes.dotted(method.value) == path):
                return True
        added = every(cst.Module(self.blocks[0].statements), cst.AugAssign)
        return any(nodes.dotted(each.target) == path for each in added)

    def members_received(
        self, statement: cst.SimpleStatementLine, small: cst.Assign, value: Expr
    ) -> list[Statement] | None:
        """`optimizers = build(model)` of a function that makes them: a name for each, and the list of these."""
        parts = self.made_there(value)
        kind = self.kind_of(value.func) if isinstance(value, cst.Call) and parts else None
        result = self.script.functions[kind.name].result if isinstance(kind, Function) else None
        if not isinstance(result, Members) or result.keys:
            return None
        taken = {*usage.stores(self.blocks[0].statements), *(self.facts.parameter_names if self.facts else ())}
        names: list[Expr] = []
        for part in parts:
            name = usage.unused_name(short_name(part), taken)
            taken.add(name)
            names.append(nodes.name(name))
        apart = [
            statement.with_changes(body=[small.with_changes(targets=[nodes.target(nodes.bare_tuple(names))])]),
            _line(small.targets[0].target, cst.List([cst.Element(name) for name in names])),
        ]
        self.unit.apart[statement] = [self.placed(one, statement) for one in apart]
        return self.unit.apart[statement]

    def displayed(self, node: cst.ListComp | cst.DictComp) -> Expr:
        """A comprehension that makes objects, as the display of them; itself where it cannot be one."""
        turns = self.member_turns(node.for_in.target, node.for_in.iter)
        if turns is None or len(turns) > _MOST or node.for_in.ifs or node.for_in.inner_for_in is not None:
            return node
        if isinstance(node, cst.DictComp):
            pairs = [(nodes.substituted(node.key, turn), self.in_turn(node.value, turn)) for turn in turns]
            return cst.Dict([cst.DictElement(key, value) for key, value in pairs])
        return cst.List([cst.Element(self.in_turn(node.elt, turn)) for turn in turns])

    def in_turn(self, node: Expr, values: Mapping[str, Expr]) -> Expr:
        """An expression in one turn of a loop."""
        return nodes.visited(nodes.substituted(node, values), _Items(self))

    # -- the turns of a loop ------------------------------------------------------------------------------------------

    def member_turns(self, target: cst.BaseAssignTargetExpression, iterated: Expr) -> list[dict[str, Expr]] | None:
        """What the variables of a loop are in each of its turns; None where that is not known."""
        each = self.known_items(iterated)
        if not each or len(each) > _MOST:
            return None
        made = [bound for item in each if (bound := bound_names(target, item)) is not None]
        return made if len(made) == len(each) else None

    def item(self, node: cst.Subscript) -> Expr | None:
        """The member that `optimizers[0]` is; None for what is no member."""
        kind, index = self.kind_of(node.value), node.slice[0].slice if len(node.slice) == 1 else None
        if not isinstance(kind, Members) or not isinstance(index, cst.Index):
            return None
        key, keys = nodes.literal(index.value), [nodes.literal(nodes.expression(each)) for each in kind.keys]
        number = keys.index(key) if keys and key in keys else ... if keys else key
        if not isinstance(number, int) or not -len(kind.names) <= number < len(kind.names):
            return None
        return nodes.expression(kind.names[number])

    def joined(self, node: cst.BinaryOperation) -> Expr | None:
        """`weights + biases` as one display; None of other expressions."""
        if not isinstance(node.operator, cst.Add):
            return None
        kinds = [(each, self.kind_of(each)) for each in (node.left, node.right)]
        sides = [display(kind) if isinstance(kind, Members) else each for each, kind in kinds]
        if type(sides[0]) is not type(sides[1]) or not all(map(self.lists_objects, sides)):
            return None
        members = [one for side in sides if isinstance(side, cst.List | cst.Tuple) for one in nodes.elements(side)]
        return nodes.tuple_of(members) if isinstance(sides[0], cst.Tuple) else cst.List(list(map(cst.Element, members)))


class _Items(cst.CSTTransformer):
    """Puts members in the place of items, and of comprehensions over them what they list. `bound`: keys and numbers
    that names stand for in an index."""

    def __init__(self, scope: MemberLoops, bound: Mapping[str, Expr] | None = None) -> None:
        super().__init__()
        self.scope, self.bound = scope, bound or {}

    def leave_Index(self, original_node: cst.Index, updated_node: cst.Index) -> cst.Index:
        value = self.bound.get(nodes.dotted(updated_node.value) or "", updated_node.value)
        return updated_node if nodes.literal(value) is ... else updated_node.with_changes(value=value)

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        found = self.scope.item(updated_node)
        return updated_node if found is None else found

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        return self.scope.joined(updated_node) or updated_node

    def leave_ListComp(self, original_node: cst.ListComp, updated_node: cst.ListComp) -> Expr:
        names = usage.target_names(updated_node.for_in.target)
        about = self.scope.about_members(names, updated_node.for_in.iter, updated_node.elt)
        return self.scope.displayed(updated_node) if about else updated_node


def _asks_of(statement: Statement, name: str) -> bool:
    """Whether a statement says of a tensor under a name that gradients are taken of it, and no more."""
    texts = (f"{name}.requires_grad = True", f"{name}.requires_grad_()", f"{name}.requires_grad_(True)")
    return isinstance(statement, cst.SimpleStatementLine) and nodes.code(statement).strip() in texts


def _line(target: Expr | None, value: Expr) -> cst.SimpleStatementLine:
    small = cst.Expr(value) if target is None else cst.Assign([nodes.target(target)], value)
    return cst.SimpleStatementLine([small])


def _each(node: cst.ListComp | cst.DictComp) -> Expr:
    return node.value if isinstance(node, cst.DictComp) else node.elt


def _bound_anew(node: cst.CSTNode) -> set[str]:
    """The plain names that code binds to something else: `p -= d` changes the tensor that p is."""
    in_place = [each.target.value for each in every(node, cst.AugAssign) if isinstance(each.target, cst.Name)]
    return set((Counter(usage.stores(node)) - Counter(in_place)).elements())


@remembered
def _displays(statement: Statement) -> tuple[Expr, ...]:
    """The lists and tuples that loops of a statement go through, and the calls that may hold some."""
    loops = every(statement, (cst.For, cst.CompFor))
    return tuple(loop.iter for loop in loops if isinstance(loop.iter, cst.List | cst.Tuple | cst.Call))


def _one_of(path: str) -> str:
    """What one of several is called: `optimizer` of `optimizers`."""
    return path[:-1] if path.endswith("s") and len(path) > 2 else path
