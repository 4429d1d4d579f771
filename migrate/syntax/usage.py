"""Which names a piece of code reads and binds, in which order, and what it calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeGuard

import libcst as cst

from migrate.files.imports import parsed
from migrate.syntax import nodes
from migrate.syntax.remembering import remembered
from migrate.syntax.walking import every, walk

ROOTS = ("object", "ABC", "abc.ABC")  # bases that have no methods for objects


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.stores: list[str] = []

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        walk(node.value, self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        walk(node.value, self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        self._target(node.target)
        return False

    def visit_AnnAssign(self, node: cst.AnnAssign) -> bool:
        if node.value is not None:
            walk(node.value, self)
        self._target(node.target)
        return False

    def visit_AugAssign(self, node: cst.AugAssign) -> bool:
        walk(node.value, self)
        walk(node.target, self)
        self._target(node.target)
        return False

    def visit_For(self, node: cst.For) -> bool:
        walk(node.iter, self)
        self._target(node.target)
        walk(node.body, self)
        if node.orelse:
            walk(node.orelse, self)
        return False

    def visit_CompFor(self, node: cst.CompFor) -> bool:
        walk(node.iter, self)
        self._target(node.target)
        for condition in node.ifs:
            walk(condition, self)
        if node.inner_for_in:
            walk(node.inner_for_in, self)
        return False

    def visit_AsName(self, node: cst.AsName) -> bool:
        self._target(node.name)
        return False

    def visit_NamedExpr(self, node: cst.NamedExpr) -> bool:
        walk(node.value, self)
        self._target(node.target)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.loads.append(node.value)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self.stores.append(node.name.value)
        inner = _Names()
        walk(node.body, inner)
        for decorator in node.decorators:
            walk(decorator, self)
        parameters = [*node.params.params, *node.params.kwonly_params]
        for parameter in parameters:
            if parameter.default is not None:
                walk(parameter.default, self)
        bound = set(inner.stores) | {parameter.name.value for parameter in parameters}
        self.loads += [found for found in inner.loads if found not in bound]
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        inner = _Names()
        walk(node.body, inner)
        bound = {p.name.value for p in node.params.params}
        for parameter in node.params.params:
            if parameter.default is not None:
                walk(parameter.default, self)
        self.loads += [found for found in inner.loads if found not in bound]
        return False

    def _comprehension(self, node: cst.CSTNode) -> bool:
        inner = _Names()
        for child in node.children:
            walk(child, inner)
        bound = set(inner.stores)  # the variables of a comprehension live in it alone
        self.loads += [found for found in inner.loads if found not in bound]
        return False

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        self.stores.append(node.name.value)
        return True

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
            self.visit_ImportAlias(alias)
        return False  # the module is no name that is read

    def visit_ImportAlias(self, node: cst.ImportAlias) -> bool:
        bound = node.evaluated_alias or node.evaluated_name.split(".")[0]
        self.stores.append(bound)
        return False

    def _target(self, target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            self.stores.append(target.value)
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self._target(element.value)
        elif isinstance(target, cst.StarredElement):
            self._target(target.value)
        else:
            walk(target, self)


@remembered
def _names_of(node: cst.CSTNode) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found = _Names()
    walk(node, found)
    return tuple(found.loads), tuple(found.stores)


def _several(nodes: cst.CSTNode | Iterable[cst.CSTNode]) -> Iterable[cst.CSTNode]:
    return [nodes] if isinstance(nodes, cst.CSTNode) else nodes


def loads(nodes: cst.CSTNode | Iterable[cst.CSTNode]) -> list[str]:
    """The plain names read in `nodes`, in order, with repeats (names bound by an inner function or lambda left out)."""
    return [name for node in _several(nodes) for name in _names_of(node)[0]]


def stores(nodes: cst.CSTNode | Iterable[cst.CSTNode]) -> list[str]:
    """The plain names bound in `nodes`, in order, with repeats."""
    return [name for node in _several(nodes) for name in _names_of(node)[1]]


def loads_from_before(node: cst.CSTNode) -> set[str]:
    """The plain names read in a statement, without those that a loop has bound itself by then."""
    names = set(loads(node))
    return {name for name in names if reads_first([node], name)} if isinstance(node, cst.For) else names


def changes(node: cst.CSTNode) -> list[str]:
    """The plain names that a piece of code binds, and those of what it changes in place."""
    return [*stores(node), *changed_in_place(node)]


@remembered
def changed_in_place(node: cst.CSTNode) -> tuple[str, ...]:
    """The plain names whose value changes without being bound: `x.add_(y)`, `x[i] = y`."""
    roots: list[cst.CSTNode] = []
    for one in every(node, (cst.Call, cst.AssignTarget, cst.AugAssign), closed=cst.FunctionDef):
        if isinstance(one, cst.AssignTarget | cst.AugAssign):
            roots += [nodes.root(one.target)] if isinstance(one.target, cst.Subscript) else []
        elif isinstance(one.func, cst.Attribute) and is_in_place(one.func.attr.value):
            roots.append(nodes.root(one.func.value))
    return tuple(each.value for each in roots if isinstance(each, cst.Name))


def filled(node: cst.CSTNode) -> list[str]:
    """The plain names of lists that a piece of code puts something into other than at their end, where messages go."""
    named = [(method.attr.value, method.value) for method in methods_called(node)]
    return [to.value for method, to in named if method in _FILLING and isinstance(to, cst.Name)]


_FILLING = ("insert", "extend", "appendleft", "extendleft")
_CHANGING = (*_FILLING, "append", "reverse", "sort", "pop", "popleft", "remove", "clear", "add")


def changed_by_methods(node: cst.CSTNode) -> set[str]:
    """The plain names of lists, sets and the like that a piece of code changes by a method of theirs."""
    return {m.value.value for m in methods_called(node) if m.attr.value in _CHANGING and isinstance(m.value, cst.Name)}


def is_in_place(method: str) -> bool:
    """Whether a method is named as torch names those that change their tensor: `add_`."""
    return method.endswith("_") and not method.startswith("__") and method != "requires_grad_"


def calls(node: cst.CSTNode) -> list[cst.Call]:
    """The calls in a node, outer ones first."""
    return list(_calls_of(node))


def methods_called(node: cst.CSTNode) -> list[cst.Attribute]:
    """`x.add` of each call `x.add(y)` in a node, outer ones first."""
    return [call.func for call in calls(node) if isinstance(call.func, cst.Attribute)]


def site_of(call: cst.Call) -> int:
    """What tells a call from others of the input: the text of the name that it calls, which its copies share."""
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return id(name.value) if isinstance(name, cst.Name) else 0


def text_of_its_own(text: str) -> str:
    """The same text as another object, so that `site_of` tells a call of this name from the others."""
    return text[:1] + text[1:]


@remembered
def looped_over(node: cst.CSTNode) -> frozenset[cst.CSTNode]:
    """What loops and comprehensions go through, in `enumerate`, `zip` or `reversed` maybe, and what `len` counts."""
    found: list[cst.CSTNode] = [one.iter for one in every(node, (cst.For, cst.CompFor))]
    found += [call for call in every(node, cst.Call) if nodes.dotted(call.func) == "len"]
    inside = [
        arg.value
        for one in found
        if isinstance(one, cst.Call) and nodes.dotted(one.func) in ("enumerate", "zip", "reversed", "len")
        for arg in one.args
    ]
    return frozenset([*found, *inside])


@remembered
def _calls_of(node: cst.CSTNode) -> tuple[cst.Call, ...]:
    return tuple(every(node, cst.Call))


def returns(node: cst.CSTNode) -> list[cst.Return]:
    """The returns in the body of a function, those of inner functions left out."""
    return list(every(node, cst.Return, closed=cst.FunctionDef))


def attributes(node: cst.CSTNode) -> list[str]:
    """The names of the attributes that are read in a node, in order."""
    return [found.attr.value for found in every(node, cst.Attribute)]


# Methods of models and losses that a class may call without naming torch.
_OF_MODELS = ("parameters", "eval", "named_parameters", "state_dict", "load_state_dict", "zero_grad", "backward")


def works_on_models(node: cst.ClassDef) -> bool:
    """Whether a class works on models, optimizers or losses that it is given."""
    if {"param_groups", "grad", "requires_grad"} & {path.rpartition(".")[2] for path in paths(node)}:
        return True
    return any(isinstance(call.func, cst.Attribute) and call.func.attr.value in _OF_MODELS for call in calls(node))


class _Paths(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        self.found += filter(None, [nodes.dotted(node)])
        walk(node.value, self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.found.append(node.value)

    def visit_Arg(self, node: cst.Arg) -> bool:
        walk(node.value, self)
        return False


@remembered
def paths(node: cst.CSTNode) -> tuple[str, ...]:
    """The names and dotted names in a node, each with those that it begins with."""
    visitor = _Paths()
    walk(node, visitor)
    return tuple(visitor.found)


def attributes_in(target: cst.CSTNode) -> list[str]:
    """The attributes of self among the targets of an assignment."""
    if isinstance(target, cst.Attribute) and nodes.dotted(target.value) == "self":
        return [target.attr.value]
    if isinstance(target, cst.Tuple | cst.List):
        return [name for element in target.elements for name in attributes_in(element.value)]
    return []


def attributes_assigned(node: cst.CSTNode) -> list[str]:
    """The attributes of `self` that a node assigns, as often as it does."""
    targets = every(node, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign))
    return [name for found in targets for name in attributes_in(found.target)]


def attributes_set(node: cst.CSTNode) -> set[str]:
    """The attributes of `self` that a node assigns."""
    return set(attributes_assigned(node))


_SETTING = (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.Del)


@remembered
def given_attributes(node: cst.CSTNode) -> set[str]:
    """The names of objects of which a node sets, deletes or changes attributes: `data.x = x`, `data.x.add_(1)`."""
    targets = [one if isinstance(one, cst.Del) else one.target for one in every(node, _SETTING)]
    changed = [method.value for method in methods_called(node) if is_in_place(method.attr.value)]
    owners = [nodes.dotted(one.value) for each in (*targets, *changed) for one in every(each, cst.Attribute)]
    return {owner for owner in owners if owner is not None}


def attributes_of_self(node: cst.CSTNode) -> list[str]:
    """The attributes of `self` that are named in a node, in order, without repeats."""
    found = [each.attr.value for each in every(node, cst.Attribute) if nodes.dotted(each.value) == "self"]
    return list(dict.fromkeys(found))


def bindings(node: cst.CSTNode) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What plain assignments in a node bind, each with its value: of `a, b = x, y` two."""
    whole = [(target.target, one.value) for one in every(node, cst.Assign) for target in one.targets]
    return [pair for target, value in whole for pair in pairs(target, value)]


def pairs(target: cst.BaseExpression, value: cst.BaseExpression) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The targets of an assignment, each with what it is given."""
    sides = [each.elements for each in (target, value) if isinstance(each, cst.Tuple | cst.List)]
    if len(sides) == 2 and len(sides[0]) == len(sides[1]):
        return [(one.value, other.value) for one, other in zip(*sides, strict=True)]
    return [(target, value)]


def unused_name(wanted: str, taken: Container[str]) -> str:
    """A name that nothing has: the wanted one, else with the first free number from 2 on."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    return name


def target_names(target: cst.CSTNode) -> list[str]:
    """The plain names that an assignment target binds, nested ones too; starred ones are left out."""
    if isinstance(target, cst.Name):
        return [target.value]
    if isinstance(target, cst.Tuple | cst.List):
        return [name for element in target.elements for name in target_names(element.value)]
    return []


def reads_first(statements: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether statements may read the value that a name had before them."""
    return first_access(statements, name) == "load"


def first_access(statements: Sequence[cst.CSTNode], name: str) -> str:
    """What happens first to the old value of a name: "load", "store", or "" where neither surely does."""

    def access(node: cst.CSTNode) -> str:
        return "load" if name in loads(node) else "store" if name in stores(node) else ""

    return first_met(statements, access)


def first_met(statements: Sequence[cst.CSTNode], met: Callable[[cst.CSTNode], str]) -> str:
    """What happens first to something that is kept: "load", "store", or "" where neither surely does. `met`: what
    happens to it in a simple statement, or in what a block evaluates before it runs."""
    return next((found for statement in statements if (found := _met_in(statement, met))), "")


def _met_in(statement: cst.CSTNode, met: Callable[[cst.CSTNode], str]) -> str:
    if isinstance(statement, cst.SimpleStatementLine):
        return met(statement)
    if isinstance(statement, cst.For):
        if met(statement.iter) == "load":
            return "load"
        bound = met(cst.Assign([cst.AssignTarget(statement.target)], cst.Name("None")))
        inner = bound if bound == "store" else first_met(statement.body.body, met)
        return "load" if inner == "load" else ""
    if isinstance(statement, cst.While | cst.If):
        if met(statement.test) == "load":
            return "load"
        parts = [first_met(statement.body.body, met)]
        if isinstance(statement.orelse, cst.If):
            parts.append(_met_in(statement.orelse, met))
        elif statement.orelse is not None:
            parts.append(first_met(statement.orelse.body.body, met))
        if "load" in parts:
            return "load"
        every = isinstance(statement, cst.If) and statement.orelse is not None and set(parts) == {"store"}
        return "store" if every else ""
    if isinstance(statement, cst.With):
        if any(met(item) == "load" for item in statement.items):
            return "load"
        return first_met(statement.body.body, met)
    if isinstance(statement, cst.Try):
        blocks = [*statement.handlers, statement.orelse, statement.finalbody]
        others = [first_met(block.body.body, met) for block in blocks if block is not None]
        inside = first_met(statement.body.body, met)
        if "load" in (inside, *others):
            return "load"
        return inside if only_fails(statement) else ""
    return "load" if met(statement) == "load" else ""


def only_fails(block: cst.Try) -> bool:
    """Whether what follows a `try` runs only where nothing was raised in it."""
    ends = [one.body.body[-1] for one in block.handlers]
    raised = all(isinstance(end, cst.SimpleStatementLine) and isinstance(end.body[-1], cst.Raise) for end in ends)
    return raised and block.finalbody is None


# Ways to reach attributes that do not write their names.
_NAMELESS = frozenset({"children", "named_children", "_modules", "__dict__", "__getattr__", "add_module"})


# Numbers that a torch layer keeps: who asks it for one of them alone does not call it.
_NUMBERS_KEPT = frozenset(
    {"in_features", "out_features", "in_channels", "out_channels", "num_features", "num_embeddings", "embedding_dim"}
    | {"normalized_shape", "kernel_size", "stride", "dilation", "groups", "eps", "momentum"}
    | {"input_size", "hidden_size", "num_layers"}
)


def goes_through_weights(texts: Iterable[str]) -> bool:
    """Whether some files may compute with the weights of a module without their names, `sum(p.norm() for p in
    model.parameters())`: all that does not give them to an optimizer, clip their gradients or count them."""
    for text in texts:
        try:
            every = list(ast.walk(parsed(text)))
        except SyntaxError:
            return True
        given = [arg for node in every if isinstance(node, ast.Call) and _only_takes(node) for arg in node.args]
        given += [part.iter for node in every if _counts(node) for part in node.generators]
        known = {id(node) for node in given}
        if any(_lists_weights(node) and id(node) not in known for node in every):
            return True
    return False


def _lists_weights(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in ("parameters", "named_parameters")


def _only_takes(node: ast.Call) -> bool:
    """Whether a call makes an optimizer, or clips gradients."""
    name = ast.unparse(node.func)
    rates = any(keyword.arg in ("lr", "weight_decay") for keyword in node.keywords)
    return rates or "optim." in name or name.rpartition(".")[2].startswith("clip_grad_")


def _counts(node: ast.AST) -> TypeGuard[ast.GeneratorExp | ast.ListComp]:
    """`p.numel() for p in model.parameters() if p.requires_grad`."""
    return isinstance(node, ast.GeneratorExp | ast.ListComp) and ast.unparse(node.elt).endswith(".numel()")


def attributes_read(texts: Iterable[str]) -> frozenset[str] | None:
    """The names of attributes that some files read; what strings say counts, too, since `getattr` may be given it. None
    where attributes are reached without their names."""
    found: set[str] = set()
    for text in texts:
        try:
            tree = parsed(text)
        except SyntaxError:
            return None
        every = list(ast.walk(tree))
        asked = {id(node.value) for node in every if isinstance(node, ast.Attribute) and node.attr in _NUMBERS_KEPT}
        for node in every:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store) and id(node) not in asked:
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.split(r"\W+", node.value))
            elif isinstance(node, ast.Call) and _asks_by_value(node):
                return None
    return None if found & _NAMELESS else frozenset(found)


def _asks_by_value(node: ast.Call) -> bool:
    """`getattr(module, name)`, `vars(module)`."""
    if not isinstance(node.func, ast.Name) or node.func.id not in ("getattr", "vars"):
        return False
    return len(node.args) < 2 or not isinstance(node.args[1], ast.Constant)


_QUESTIONS = frozenset(
    {"is_available", "device_count", "default_backend", "startswith", "endswith", "isinstance", "hasattr", "len"}
)


def only_asks(node: cst.CSTNode) -> bool:
    """Whether evaluating an expression changes nothing: names, attributes, literals, comparisons of them, questions."""
    return all((nodes.dotted(call.func) or "").rpartition(".")[2] in _QUESTIONS for call in calls(node))
