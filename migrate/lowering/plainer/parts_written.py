"""The parts of a model that a constructor takes, by their own names: `list(resnet.children())[:-1]` written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import libcst as cst
from libcst.metadata import CodeRange

from migrate.known.constructed import ChoiceNode, ClassNode, ListNode, Node
from migrate.known.facts import ClassFacts
from migrate.known.script import Script
from migrate.lowering.modules.settings_given import default_of
from migrate.lowering.plainer.copied_input import Placing
from migrate.lowering.weights.freezing import flag_of
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_ROW = "torch.nn.Sequential"
_LISTS = ("list", "tuple")
_INNER = (cst.For, cst.While, cst.BaseComp, cst.Lambda, cst.FunctionDef)


def children_in_order(facts: ClassFacts) -> list[str] | None:
    """The modules that a class surely has, in the order in which its constructor makes them; None where it may have
    others, or another order."""
    init = facts.method("__init__")
    if init is None or facts.extends or facts.held or facts.shared or facts.ties:
        return None
    names = [name for name in facts.attributes if name in facts.children]
    built = [method for name in facts.built if (method := facts.method(name)) is not None]
    elsewhere = {name for method in built for name in usage.attributes_set(method)}
    given = {attribute for name, attribute in facts.kept_as.items() if default_of(facts, name) is None}
    sure = all(
        name in facts.certain and (name in given or not isinstance(facts.children[name], ChoiceNode)) for name in names
    )
    added = any(path.startswith("self.add_module") or path == "setattr" for path in usage.paths(init.body))
    return names if names and sure and not added and elsewhere.isdisjoint(names) else None


def module_of(facts: ClassFacts, name: str) -> Node | None:
    """The module that a class has under a name, which may be None for some arguments; None where there is none."""
    found = facts.children.get(name)
    return found.children[0] if isinstance(found, ChoiceNode) and len(found.children) == 1 else found


def maker(value: Expr) -> cst.Call | None:
    """The call in `resnet18()` and in `vgg16().features`."""
    root = nodes.root(value)
    return root if isinstance(root, cst.Call) else None


class NotKnown(Exception):
    """What a constructor does with another model is not known."""


@dataclass
class Taking:
    """What a constructor takes of the models under some names. `bound`: what its names stand for; `is_row`: whether an
    expression is `nn.Sequential`."""

    script: Script
    made: dict[str, str]
    bound: dict[str, Expr]
    is_row: Callable[[Expr], bool]
    taken: list[Expr] = field(default_factory=list)
    instead: dict[str, str] = field(default_factory=dict)  # parts that others are put in the place of -> their names
    named: bool = False  # whether parts have names of their own by now

    def owners(self) -> set[str]:
        """The names of the models that parts are taken of."""
        roots = [nodes.root(path) for path in self.taken]
        return {root.value for root in roots if isinstance(root, cst.Name)}

    def written(self, init: cst.FunctionDef, positions: dict[cst.CSTNode, CodeRange]) -> cst.FunctionDef | None:
        """The constructor with each part under its own name; None where it takes none, or does something else with a
        model."""
        body: list[Statement] = []
        said: list[cst.EmptyLine] = []
        inner = {id(one) for outer in every(init.body, _INNER) for one in every(outer, cst.BaseExpression)}
        frozen: set[str] = set()
        try:
            for statement in suites.suite_of(init.body.body):
                owner = self._freezes(statement)
                if owner:
                    frozen.add(owner)
                    said += _comments(statement)
                    continue
                replaced = self._replaced(statement)
                if replaced:
                    name = usage.unused_name(replaced.rpartition(".")[2], {*usage.stores(init), *usage.loads(init)})
                    small = suites.alone(statement)
                    assert isinstance(small, cst.Assign)
                    made = statement.with_deep_changes(small, targets=[nodes.target(nodes.name(name))])
                    body.append(nodes.visited(made, _Written(self, inner, positions)))
                    self.instead[replaced] = name
                    continue
                if self._is_name_of_parts(statement):
                    self.named = True
                    said += _comments(statement)
                    continue
                written = nodes.visited(self._made_alone(statement), _Written(self, inner, positions))
                if said and isinstance(written, cst.SimpleStatementLine):
                    written, said = written.with_changes(leading_lines=[*said, *written.leading_lines]), []
                body.append(written)
            body += self._frozen(body, frozen)
        except NotKnown:
            return None
        codes = [nodes.code(path) for path in self.taken]
        apart = all(not _inside(one, other) for i, one in enumerate(codes) for other in codes[:i] + codes[i + 1 :])
        return init.with_changes(body=suites.block_of(init.body, body)) if codes and apart else None

    def _replaced(self, statement: Statement) -> str:
        """The part of a model that a statement puts another in the place of, `resnet.conv1`; "" of other statements."""
        small = suites.alone(statement)
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if not isinstance(target, cst.Attribute) or not isinstance(target.value, cst.Name):
            return ""
        if target.value.value not in self.made or self.module_at(target) is None:
            return ""
        if self.named or self.taken or nodes.code(target) in self.instead:
            raise NotKnown  # what has been taken is what was there before
        return nodes.code(target)

    def _freezes(self, statement: Statement) -> str:
        """The name of the model all of whose weights a statement freezes; "" of other statements."""
        small = suites.alone(statement)
        call = small.value if isinstance(small, cst.Expr) else None
        if isinstance(statement, cst.For) and statement.orelse is None:
            body = suites.suite_of(statement.body.body)
            call, name = statement.iter, nodes.dotted(statement.target) or ""
            value = flag_of(body[0], name) if len(body) == 1 else None
            method, off = "parameters", value is not None and nodes.is_literal(value, False)
        else:
            method = "requires_grad_"
            off = isinstance(call, cst.Call) and bool(call.args) and nodes.is_literal(call.args[0].value, False)
        func = call.func if isinstance(call, cst.Call) else None
        owner = self.part(func.value) if isinstance(func, cst.Attribute) and func.attr.value == method else None
        return owner.value if off and isinstance(owner, cst.Name) else ""

    def _frozen(self, body: Sequence[Statement], owners: set[str]) -> list[Statement]:
        """The statements that freeze the attributes which are made of parts of models whose weights are frozen."""
        made: list[Statement] = []
        for statement in body:
            inside = [call for call in every(statement, cst.Call) if _copied(call) in owners]
            small = suites.alone(statement)
            if not inside:
                continue
            target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
            value = small.value if isinstance(small, cst.Assign) else None
            row = isinstance(value, cst.Call) and self.is_row(value.func)
            parts = [arg.value for arg in value.args] if isinstance(value, cst.Call) and row else [value]
            if not isinstance(target, cst.Attribute) or any(_copied(one) not in owners for one in parts):
                raise NotKnown
            made.append(nodes.statement("{x}.requires_grad_(False)", x=target))
        return made

    def _made_alone(self, statement: Statement) -> Statement:
        """`vgg = vgg16()` of `vgg = vgg16().features`: the name is that of the whole from here on."""
        small = suites.alone(statement)
        target = small.targets[0].target if isinstance(small, cst.Assign) else None
        if not isinstance(small, cst.Assign) or not isinstance(target, cst.Name) or target.value not in self.made:
            return statement
        call = maker(small.value)
        return statement if call is None or call is small.value else statement.with_deep_changes(small, value=call)

    def _is_name_of_parts(self, statement: Statement) -> bool:
        """Whether a statement does no more than to name a part, or several."""
        small = suites.alone(statement)
        if not isinstance(small, cst.Assign) or not isinstance(target := small.targets[0].target, cst.Name):
            return False
        if target.value in self.made or target.value not in self.bound:
            return False
        return any(read(small.value) is not None for read in (self.part, self.listed, self.stretch))

    # -- what an expression stands for ---------------------------------------------------------------------------------

    def part(self, node: Expr) -> Expr | None:
        """A part of a model by its own name, `resnet.layer1[0]`, or the whole model; None of other expressions."""
        if isinstance(node, cst.Name) and node.value in self.made:
            return self._with_path(node, self.bound[node.value])
        if isinstance(node, cst.Name):
            return self.part(self.bound[node.value]) if node.value in self.bound else None
        if isinstance(node, cst.Attribute):
            owner = self.part(node.value)
            found = None if owner is None else cst.Attribute(owner, node.attr)
            return found if found is not None and self.module_at(found) is not None else None
        if not isinstance(node, cst.Subscript) or not isinstance(number := _index(node), int):
            return None
        listed = self.listed(node.value)
        if listed is not None:
            return listed[number] if -len(listed) <= number < len(listed) else None
        owner = self.part(node.value)
        module = None if owner is None else self.module_at(owner)
        if owner is None or not isinstance(module, ListNode) or module.keys or (module.dynamic and number < 0):
            return None
        count = len(_layers(module))
        found = _item(owner, number if module.dynamic or number >= 0 else number + count)
        return found if module.dynamic or -count <= number < count else None

    def listed(self, node: Expr) -> list[Expr] | None:
        """The parts in `list(resnet.children())[:-1]`, each by its own name; None of other expressions."""
        match node:
            case cst.Name(value=name) if name in self.bound and name not in self.made:
                return self.listed(self.bound[name])
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value="children")), args=[]):
                return self._children(owner)
            case cst.Call(func=cst.Name(value=name), args=[cst.Arg(value=inner, star="")]) if name in _LISTS:
                return self.listed(inner) or self._children(inner, ListNode)
            case cst.Subscript(value=inner) if isinstance(taken := _index(node), slice):
                listed = self.listed(inner)
                return None if listed is None else listed[cast("slice[int | None]", taken)]
            case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
                one, other = self.listed(left), self.listed(right)
                return None if one is None or other is None else one + other
            case cst.List(elements=[cst.StarredElement(value=inner)]):
                return self.listed(inner)
            case _:
                return None

    def stretch(self, node: Expr) -> Expr | None:
        """The beginning of a row of layers whose number is not known, or all of it, as `vgg.features[:23]`; None of
        other expressions."""
        match node:
            case cst.Name(value=name) if name in self.bound and name not in self.made:
                return self.stretch(self.bound[name])
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value="children")), args=[]):
                return self._row(owner)
            case cst.Call(func=cst.Name(value=name), args=[cst.Arg(value=inner, star="")]) if name in _LISTS:
                return self.stretch(inner) or self._row(inner)
            case cst.Subscript(value=inner) if isinstance(taken := _index(node), slice):
                row = self.stretch(inner) or self._row(inner)
                plain = taken.start in (None, 0) and taken.step is None and isinstance(taken.stop, int)
                return node.with_changes(value=row) if row is not None and plain and _index(row) is ... else None
            case _:
                return None

    def _row(self, node: Expr) -> Expr | None:
        """A row of layers whose number is not known."""
        path = self.part(node)
        module = None if path is None else self.module_at(path)
        whole = isinstance(module, ListNode) and module.dynamic and module.infix.startswith("/") and not module.named
        return path if whole else None

    def _children(self, owner: Expr, sort: type[Node] | None = None) -> list[Expr] | None:
        path = self.part(owner)
        module = None if path is None else self.module_at(path)
        if path is None or module is None or (sort is not None and not isinstance(module, sort)):
            return None
        if isinstance(module, ListNode) and not module.dynamic and not module.keys:
            return [_item(path, number) for number in range(len(_layers(module)))]
        names = children_in_order(self.script.classes[module.cls]) if isinstance(module, ClassNode) else None
        return None if names is None else [cst.Attribute(path, cst.Name(name)) for name in names]

    def _with_path(self, name: cst.Name, value: Expr) -> Expr:
        """What a name stands for that was given a part of what a call makes, in terms of the whole."""
        if isinstance(value, cst.Attribute):
            return cst.Attribute(self._with_path(name, value.value), value.attr)
        if isinstance(value, cst.Subscript):
            return value.with_changes(value=self._with_path(name, value.value))
        return name

    def module_at(self, path: Expr) -> Node | None:
        """The module at the path of a part; None where there is none, or it is not known which."""
        if isinstance(path, cst.Name):
            return ClassNode(self.made[path.value]) if path.value in self.made else None
        if isinstance(path, cst.Attribute):
            owner = self.module_at(path.value)
            facts = self.script.classes.get(owner.cls) if isinstance(owner, ClassNode) else None
            return None if facts is None else module_of(facts, path.attr.value)
        if not isinstance(path, cst.Subscript) or not isinstance(number := _index(path), int):
            return None
        row = self.module_at(path.value)
        if not isinstance(row, ListNode):
            return None
        return ChoiceNode(row.children) if row.dynamic else _layers(row)[number]

    # -- what becomes of it --------------------------------------------------------------------------------------------

    def take(self, path: Expr) -> Expr:
        """A part as a copy of it, or what is in its place by now."""
        code = nodes.code(path)
        if code in self.instead:
            return nodes.name(self.instead[code])
        if any(_inside(code, other) for other in self.instead):
            raise NotKnown
        several = isinstance(path, cst.Subscript) and isinstance(_index(path), slice)
        self.taken.append(path.value if several and isinstance(path, cst.Subscript) else path)
        return nodes.call("copy.deepcopy", path)


class _Written(Placing):
    """Writes parts under their own names. Raises `NotKnown` where a model is used otherwise."""

    def __init__(self, taking: Taking, inner: set[int], positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.taking = taking
        self.inner = inner
        self.instead: dict[int, Expr] = {}
        self.labels: set[int] = set()  # names of attributes and of arguments

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.AssignTarget | cst.AugAssign | cst.Del):
            roots = [nodes.root(one) for one in every(node, (cst.Attribute, cst.Subscript))]
            if any(isinstance(root, cst.Name) and root.value in self.taking.made for root in roots):
                raise NotKnown
        if isinstance(node, cst.AssignTarget):
            return not isinstance(node.target, cst.Name)
        if isinstance(node, cst.Attribute | cst.Arg):
            self.labels.add(id(node.attr if isinstance(node, cst.Attribute) else node.keyword))
        found = self.written(node) if isinstance(node, cst.BaseExpression) and id(node) not in self.labels else None
        if found is None:
            return True
        if id(node) in self.inner:
            raise NotKnown
        self.instead[id(node)] = found
        return False

    def written(self, node: Expr) -> Expr | None:
        """What stands for an expression that is made of parts; None of others."""
        taking = self.taking
        method = node.func if isinstance(node, cst.Call) else node
        if isinstance(method, cst.Attribute) and method.attr.value == "eval":
            return None  # what is put into eval mode is
        if isinstance(node, cst.Call) and len(node.args) == 1 and node.args[0].star == "*" and taking.is_row(node.func):
            row = taking.stretch(node.args[0].value)
            if row is not None:
                return taking.take(row)
        listed = taking.listed(node)
        if listed is not None:
            return cst.List([cst.Element(taking.take(path)) for path in listed])
        part = taking.stretch(node) if isinstance(node, cst.Subscript) else taking.part(node)
        part = part or taking.part(node)
        if part is not None:
            if isinstance(part, cst.Name):
                raise NotKnown
            return taking.take(part)
        if isinstance(node, cst.Attribute):
            owner = taking.part(node.value)
            if owner is not None and nodes.code(owner) in taking.instead:
                raise NotKnown
            if owner is not None:  # a setting of it
                return node.with_changes(value=owner)
        if isinstance(method, cst.Attribute) and taking.part(method.value) is not None:
            raise NotKnown
        if isinstance(node, cst.Subscript) and isinstance(_index(node), slice) and taking.part(node.value) is not None:
            raise NotKnown  # a row of some of its layers, which are known one by one
        return None

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:
        made = self.instead.get(id(original_node))
        if made is None:
            return super().on_leave(original_node, updated_node)
        self.place(made, original_node)
        return made

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """`nn.Sequential(*[a, b])` of parts is `nn.Sequential(a, b)`."""
        args: list[cst.Arg] = []
        for before, after in zip(original_node.args, updated_node.args, strict=True):
            parts = after.value if before.star == "*" and id(before.value) in self.instead else None
            args += [cst.Arg(one) for one in nodes.elements(parts)] if isinstance(parts, cst.List) else [after]
        return updated_node.with_changes(args=args) if len(args) != len(updated_node.args) else updated_node


def _copied(node: cst.CSTNode | None) -> str:
    """The model of which an expression is a copy of a part; "" of other expressions."""
    if not isinstance(node, cst.Call) or nodes.dotted(node.func) != "copy.deepcopy":
        return ""
    root = nodes.root(node.args[0].value)
    return root.value if isinstance(root, cst.Name) else ""


def _inside(path: str, other: str) -> bool:
    """Whether a part is another one, or inside of it."""
    return path == other or path.startswith((f"{other}.", f"{other}["))


def _layers(row: ListNode) -> list[Node]:
    """The layers of a row without the moves of channels, which torch has not."""
    return [one for one in row.children if getattr(one, "torch", "layer")]


def _index(node: Expr) -> object:
    """The number, or the slice of numbers, in `x[...]`; ... of other expressions."""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return ...
    match node.slice[0].slice:
        case cst.Index(value=value):
            number = nodes.literal(value)
            return number if isinstance(number, int) and not isinstance(number, bool) else ...
        case cst.Slice(lower=lower, upper=upper, step=step):
            bounds = [None if one is None else nodes.literal(one) for one in (lower, upper, step)]
            return slice(*bounds) if all(one is None or isinstance(one, int) for one in bounds) else ...
    return ...


def _item(owner: Expr, number: int) -> cst.Subscript:
    return cst.Subscript(owner, [cst.SubscriptElement(cst.Index(cst.Integer(str(number))))])


def _comments(statement: Statement) -> list[cst.EmptyLine]:
    """The comments of a statement, as lines of their own."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return []
    said = statement.trailing_whitespace.comment
    return [*statement.leading_lines, *([cst.EmptyLine(comment=said)] if said is not None else [])]
