"""Building syntax: LibCST templates filled with nodes, and the few questions asked of nodes everywhere."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence

import libcst as cst

Expr = cst.BaseExpression
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_PREFIX = "__filled_"
_ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.Integer,
    cst.Float,
    cst.SimpleString,
    cst.FormattedString,
    cst.List,
    cst.Dict,
    cst.Set,
    cst.ListComp,
    cst.DictComp,
    cst.SetComp,
    cst.Ellipsis,
)


def needs_parentheses(node: Expr) -> bool:
    """Whether `node` must be wrapped before `.attr`, `[...]` or an operator may follow it."""
    return not isinstance(node, _ATOMS) and not node.lpar


def parenthesized(node: Expr) -> Expr:
    """`node`, wrapped in parentheses where an operand or a receiver needs them."""
    if isinstance(node, cst.Integer):  # 5.attr is a syntax error, but no operand needs the wrapping
        return node
    if not needs_parentheses(node):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


class _Fill(cst.CSTTransformer):
    def __init__(self, filling: Mapping[str, Expr]) -> None:
        super().__init__()
        self.filling = filling

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        if updated_node.value.startswith(_PREFIX):
            return self.filling[updated_node.value[len(_PREFIX) :]]
        return updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return updated_node.with_changes(value=parenthesized(updated_node.value))

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        return updated_node.with_changes(value=parenthesized(updated_node.value))

    def leave_BinaryOperation(self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation) -> Expr:
        return updated_node.with_changes(left=parenthesized(updated_node.left), right=parenthesized(updated_node.right))

    def leave_UnaryOperation(self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation) -> Expr:
        return updated_node.with_changes(expression=parenthesized(updated_node.expression))

    def leave_Comparison(self, original_node: cst.Comparison, updated_node: cst.Comparison) -> Expr:
        return updated_node.with_changes(left=parenthesized(updated_node.left))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        return updated_node.with_changes(func=parenthesized(updated_node.func))


@functools.cache
def _parsed_expression(template: str) -> Expr:
    return cst.parse_expression(_PLACEHOLDER.sub(rf"{_PREFIX}\1", template))


@functools.cache
def _parsed_statements(template: str) -> tuple[Statement, ...]:
    return tuple(cst.parse_module(_PLACEHOLDER.sub(rf"{_PREFIX}\1", template)).body)


def _as_node(value: Expr | str | int) -> Expr:
    return value if isinstance(value, cst.BaseExpression) else cst.parse_expression(str(value))


def expression(template: str, **filling: Expr | str | int) -> Expr:
    """The expression of `template` with each `{name}` replaced by a node (or by parsed text).

    Operands and receivers get the parentheses that they need; everything else keeps its own formatting.
    Braces of dicts are written as calls or by `dict_of`, since `{name}` is a placeholder.
    """
    parsed = _parsed_expression(template)
    if not filling:
        return parsed.deep_clone()
    filled = parsed.deep_clone().visit(_Fill({name: _as_node(value) for name, value in filling.items()}))
    assert isinstance(filled, cst.BaseExpression)
    return filled


def statements(template: str, **filling: Expr | str | int) -> list[Statement]:
    """The statements of `template`, filled like `expression`."""
    fill = _Fill({name: _as_node(value) for name, value in filling.items()})
    return [statement.deep_clone().visit(fill) for statement in _parsed_statements(template)]  # type: ignore[misc]


def statement(template: str, **filling: Expr | str | int) -> cst.SimpleStatementLine:
    """The one simple statement of `template`."""
    (only,) = statements(template, **filling)
    assert isinstance(only, cst.SimpleStatementLine)
    return only


def name(text: str) -> cst.Name:
    return cst.Name(text)


def arguments(nodes: Iterable[Expr], keywords: Mapping[str, Expr] | None = None) -> list[cst.Arg]:
    """Positional and keyword arguments, spaced as people write them."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    result = [cst.Arg(node) for node in nodes]
    result += [cst.Arg(node, keyword=cst.Name(key), equal=tight) for key, node in (keywords or {}).items()]
    return result


def call(function: Expr | str, *nodes: Expr, **keywords: Expr) -> cst.Call:
    func = _as_node(function)
    return cst.Call(parenthesized(func), arguments(nodes, keywords))


def tuple_of(nodes: Sequence[Expr], parentheses: bool = True) -> cst.Tuple:
    made = cst.Tuple([cst.Element(node) for node in nodes])
    if len(nodes) == 1:
        made = cst.Tuple([cst.Element(nodes[0], comma=cst.Comma())])
    return made if parentheses else made.with_changes(lpar=[], rpar=[])


def dict_of(items: Iterable[tuple[str, Expr]]) -> cst.Dict:
    """A dict display with string keys."""
    space = cst.SimpleWhitespace(" ")
    return cst.Dict(
        [cst.DictElement(cst.SimpleString(f'"{key}"'), value, whitespace_after_colon=space) for key, value in items]
    )


def code(node: cst.CSTNode) -> str:
    """The source text of `node` alone."""
    return cst.Module([]).code_for_node(node)


def dotted(node: cst.CSTNode) -> str | None:
    """`a.b.c` as text where `node` is a plain dotted name, else None."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr.value}"
    return None


def literal(node: Expr | None) -> object:
    """The Python value of a literal expression (numbers, strings, None, booleans, tuples of them), else `...`."""
    import ast

    if node is None:
        return ...
    try:
        return ast.literal_eval(code(node))
    except (ValueError, SyntaxError, TypeError):
        return ...


def is_literal(node: Expr | None, value: object) -> bool:
    """Whether `node` is a literal equal to `value`, of the same type (`True` is not 1)."""
    found = literal(node)
    return found is not ... and type(found) is type(value) and found == value


class _Substitute(cst.CSTTransformer):
    def __init__(self, values: Mapping[str, Expr]) -> None:
        super().__init__()
        self.values = values

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return updated_node.with_changes(attr=original_node.attr, value=parenthesized(updated_node.value))

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        return updated_node.with_changes(value=parenthesized(updated_node.value))

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        return self.values.get(original_node.value, updated_node)


def substituted(node: Expr, values: Mapping[str, Expr]) -> Expr:
    """`node` with names replaced by expressions; attribute and keyword names stay."""
    made = node.deep_clone().visit(_Substitute(values))
    assert isinstance(made, cst.BaseExpression)
    return made


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.stores: list[str] = []

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        self._target(node.target)
        return False

    def visit_AnnAssign(self, node: cst.AnnAssign) -> bool:
        if node.value is not None:
            node.value.visit(self)
        self._target(node.target)
        return False

    def visit_AugAssign(self, node: cst.AugAssign) -> bool:
        node.value.visit(self)
        node.target.visit(self)
        self._target(node.target)
        return False

    def visit_For(self, node: cst.For) -> bool:
        node.iter.visit(self)
        self._target(node.target)
        node.body.visit(self)
        if node.orelse:
            node.orelse.visit(self)
        return False

    def visit_CompFor(self, node: cst.CompFor) -> bool:
        node.iter.visit(self)
        self._target(node.target)
        for condition in node.ifs:
            condition.visit(self)
        if node.inner_for_in:
            node.inner_for_in.visit(self)
        return False

    def visit_AsName(self, node: cst.AsName) -> bool:
        self._target(node.name)
        return False

    def visit_NamedExpr(self, node: cst.NamedExpr) -> bool:
        node.value.visit(self)
        self._target(node.target)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.loads.append(node.value)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self.stores.append(node.name.value)
        inner = _Names()
        node.body.visit(inner)
        for decorator in node.decorators:
            decorator.visit(self)
        parameters = [*node.params.params, *node.params.kwonly_params]
        for parameter in parameters:
            if parameter.default is not None:
                parameter.default.visit(self)
        bound = set(inner.stores) | {parameter.name.value for parameter in parameters}
        self.loads += [found for found in inner.loads if found not in bound]
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        inner = _Names()
        node.body.visit(inner)
        bound = {p.name.value for p in node.params.params}
        self.loads += [found for found in inner.loads if found not in bound]
        return False

    def _comprehension(self, node: cst.CSTNode) -> bool:
        inner = _Names()
        for child in node.children:
            child.visit(inner)
        bound = set(inner.stores)  # the variables of a comprehension live in it alone
        self.loads += [found for found in inner.loads if found not in bound]
        return False

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        self.stores.append(node.name.value)
        return True

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
            target.visit(self)


def _names(nodes: cst.CSTNode | Iterable[cst.CSTNode]) -> _Names:
    found = _Names()
    for node in [nodes] if isinstance(nodes, cst.CSTNode) else nodes:
        node.visit(found)
    return found


def loads(nodes: cst.CSTNode | Iterable[cst.CSTNode]) -> list[str]:
    """The plain names read in `nodes`, in order, with repeats (names bound by an inner function or lambda left out)."""
    return _names(nodes).loads


def stores(nodes: cst.CSTNode | Iterable[cst.CSTNode]) -> list[str]:
    """The plain names bound in `nodes`, in order, with repeats."""
    return _names(nodes).stores
