"""Building syntax: LibCST templates filled with nodes, and the few questions asked of nodes everywhere."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

import libcst as cst

from migrate.syntax.remembering import remembered
from migrate.syntax.walking import is_node, parts

Expr = cst.BaseExpression
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
AnyNode = TypeVar("AnyNode", bound=cst.CSTNode)
Result = TypeVar("Result")
_Given = TypeVar("_Given", cst.Param, cst.Arg)

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


# What needs no parentheses as an argument.
_OPERATIONS = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.BooleanOperation)


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


@functools.cache
def _parsed_expression(template: str) -> Expr:
    return cst.parse_expression(_PLACEHOLDER.sub(rf"{_PREFIX}\1", template))


@functools.cache
def _parsed_statements(template: str) -> tuple[Statement, ...]:
    return tuple(cst.parse_module(_PLACEHOLDER.sub(rf"{_PREFIX}\1", template)).body)


def _as_node(value: Expr | str | int) -> Expr:
    return value if isinstance(value, cst.BaseExpression) else cst.parse_expression(str(value))


def visited(node: AnyNode, transformer: cst.CSTTransformer) -> AnyNode:
    """`node` as a transformer leaves it, which must be a node of the same sort."""
    made = node.visit(transformer)
    assert isinstance(made, cst.CSTNode)
    return cast(AnyNode, made)


def expression(template: str, **filling: Expr | str | int) -> Expr:
    """The expression of `template` with each `{name}` replaced by a node (or by parsed text).

    Operands and receivers get the parentheses that they need; everything else keeps its own formatting.
    Braces of dicts are written as calls or by `dict_of`, since `{name}` is a placeholder.
    """
    return copied(_parsed_expression(template), _placed(filling))


def statements(template: str, **filling: Expr | str | int) -> list[Statement]:
    """The statements of `template`, filled like `expression`."""
    values = _placed(filling)
    return [copied(statement, values) for statement in _parsed_statements(template)]


def _placed(filling: Mapping[str, Expr | str | int]) -> dict[str, Expr]:
    return {f"{_PREFIX}{name}": _as_node(value) for name, value in filling.items()}


def statement(template: str, **filling: Expr | str | int) -> cst.SimpleStatementLine:
    """The one simple statement of `template`."""
    (only,) = statements(template, **filling)
    assert isinstance(only, cst.SimpleStatementLine)
    return only


def name(text: str) -> cst.Name:
    """A plain name, of text that is an identifier."""
    return cst.Name(text)


def arguments(nodes: Iterable[Expr], keywords: Mapping[str, Expr] | None = None) -> list[cst.Arg]:
    """Positional and keyword arguments, spaced as people write them."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    result = [
        cst.Arg(node.value, star="*") if isinstance(node, cst.StarredElement) else cst.Arg(node) for node in nodes
    ]
    result += [cst.Arg(node, keyword=cst.Name(key), equal=tight) for key, node in (keywords or {}).items()]
    return result


def extended(args: Sequence[cst.Arg], keywords: Mapping[str, Expr]) -> list[cst.Arg]:
    """The arguments of a call with more of them, laid out as those are."""
    added = arguments([], keywords)
    if not args or not added:
        return [*args, *added]
    last = args[-1]
    between = args[-2].comma if len(args) > 1 else cst.MaybeSentinel.DEFAULT
    inner = [last.with_changes(whitespace_after_arg=cst.SimpleWhitespace("")), *added[:-1]]
    return [*args[:-1], *(arg.with_changes(comma=between) for arg in inner), *ending_as(added[-1:], last)]


def ending_as(given: Sequence[_Given], last: _Given) -> list[_Given]:
    """Parameters or arguments that end as another does: with its comma, and the space behind it."""
    if not given or given[-1] is last:
        return list(given)
    space = "whitespace_after_arg" if isinstance(last, cst.Arg) else "whitespace_after_param"
    return [*given[:-1], given[-1].with_changes(comma=last.comma, **{space: getattr(last, space)})]


def call(function: Expr | str, *nodes: Expr, **keywords: Expr) -> cst.Call:
    """A call; a function given as text is parsed."""
    func = _as_node(function)
    return cst.Call(parenthesized(func), arguments(nodes, keywords))


def method(receiver: Expr, name: str, *given: Expr) -> cst.Call:
    """A call of a method."""
    return cst.Call(cst.Attribute(parenthesized(receiver), cst.Name(name)), arguments(given))


def with_some(call: cst.Call, args: Sequence[cst.Arg]) -> cst.Call:
    """A call with some of its arguments alone."""
    if len(args) == len(call.args):
        return call
    last = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in args[-1:]]
    return call.with_changes(args=[*args[:-1], *last])


def separated(parts: Sequence[AnyNode]) -> list[AnyNode]:
    """Parameters or arguments, with commas between them."""
    return [one.with_changes(comma=cst.MaybeSentinel.DEFAULT) for one in parts]


def tuple_of(nodes: Sequence[Expr], parentheses: bool = True) -> cst.Tuple:
    """A tuple, with a trailing comma where it has one element."""
    made = cst.Tuple([_element(node) for node in nodes])
    if len(nodes) == 1:
        made = cst.Tuple([made.elements[0].with_changes(comma=cst.Comma())])
    return made if parentheses else made.with_changes(lpar=[], rpar=[])


def _element(node: Expr) -> cst.BaseElement:
    return node if isinstance(node, cst.StarredElement) else cst.Element(node)


def elements(node: cst.Tuple | cst.List) -> list[Expr]:
    """What a tuple or a list holds; `*more` stays starred."""
    return [e if isinstance(e, cst.StarredElement) else e.value for e in node.elements]


def length(node: Expr) -> int:
    """How many elements a tuple has as it is written; -1 for what is none, and where `*more` stands in it."""
    if not isinstance(node, cst.Tuple) or any(isinstance(e, cst.StarredElement) for e in node.elements):
        return -1
    return len(node.elements)


def bare_tuple(nodes: Sequence[Expr]) -> Expr:
    """`a, b` as in a return or an assignment; a single node is itself, a tuple among others stays one: `a, (b, c)`."""
    if len(nodes) == 1:
        return nodes[0]
    return tuple_of([parenthesized(node) if isinstance(node, cst.Tuple) else node for node in nodes], parentheses=False)


def target(node: Expr) -> cst.AssignTarget:
    """The target of an assignment; a call or an operator cannot be one."""
    assert isinstance(node, cst.BaseAssignTargetExpression)
    return cst.AssignTarget(node)


def bare(node: Expr) -> Expr:
    """`node` without parentheses, for where it stands alone."""
    return node.with_changes(lpar=[], rpar=[])


def transposed(node: Expr) -> Expr:
    """`x.T`; of `x.T` it is x."""
    if isinstance(node, cst.Attribute) and node.attr.value == "T":
        return node.value
    return cst.Attribute(parenthesized(node), cst.Name("T"))


def dict_of(items: Iterable[tuple[str, Expr]]) -> cst.Dict:
    """A dict display with string keys."""
    space = cst.SimpleWhitespace(" ")
    return cst.Dict(
        [cst.DictElement(cst.SimpleString(f'"{key}"'), value, whitespace_after_colon=space) for key, value in items]
    )


@remembered
def code(node: cst.CSTNode) -> str:
    """The source text of `node` alone."""
    return cst.Module([]).code_for_node(node)


def dotted(node: cst.CSTNode) -> str | None:
    """`a.b.c` as text where `node` is a plain dotted name, else None."""
    # Asked more often than anything else, and LibCST's classes are abstract: `isinstance` takes long to say no.
    if type(node) is cst.Name:
        return node.value
    attributes: list[str] = []
    while type(node) is cst.Attribute:
        attributes.append(node.attr.value)
        node = node.value
    return ".".join([node.value, *reversed(attributes)]) if type(node) is cst.Name else None


def root(node: cst.CSTNode) -> cst.CSTNode:
    """What the attributes and entries of an expression belong to: `x` of `x.y[0].z`."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return node


def annotation(parameter: cst.Param) -> str:
    """The text of a parameter's annotation, "" where it has none."""
    return code(parameter.annotation.annotation) if parameter.annotation else ""


_CONSTANTS = ("None", "True", "False")
_LITERALS = (
    cst.Name, cst.BaseNumber, cst.BaseString, cst.Tuple, cst.List, cst.Dict, cst.Set, cst.UnaryOperation,
    cst.BinaryOperation, cst.Ellipsis,
)  # fmt: skip


def literal(node: Expr | None) -> object:
    """The Python value of a literal expression (numbers, strings, None, booleans, tuples of them), else `...`."""
    if not isinstance(node, _LITERALS) or (isinstance(node, cst.Name) and node.value not in _CONSTANTS):
        return ...
    try:
        return ast.literal_eval(code(node))
    except (ValueError, SyntaxError, TypeError):
        return ...


def is_literal(node: Expr | None, value: object) -> bool:
    """Whether `node` is a literal equal to `value`, of the same type (`True` is not 1)."""
    found = literal(node)
    return found is not ... and type(found) is type(value) and found == value


def looked_up(node: cst.Subscript) -> object:
    """The literal that a subscript looks up, `"lr"` of `group["lr"]`, else `...`."""
    index = node.slice[0].slice if len(node.slice) == 1 else None
    return literal(index.value) if isinstance(index, cst.Index) else ...


_OPERATORS: dict[type[cst.BaseAugOp], cst.BaseBinaryOp] = {
    cst.AddAssign: cst.Add(),
    cst.SubtractAssign: cst.Subtract(),
    cst.MultiplyAssign: cst.Multiply(),
    cst.DivideAssign: cst.Divide(),
    cst.FloorDivideAssign: cst.FloorDivide(),
    cst.PowerAssign: cst.Power(),
    cst.ModuloAssign: cst.Modulo(),
    cst.MatrixMultiplyAssign: cst.MatrixMultiply(),
    cst.BitAndAssign: cst.BitAnd(),
    cst.BitOrAssign: cst.BitOr(),
    cst.BitXorAssign: cst.BitXor(),
    cst.LeftShiftAssign: cst.LeftShift(),
    cst.RightShiftAssign: cst.RightShift(),
}


def augmented(statement: cst.AugAssign) -> Expr:
    """The value of `x += y`: `x + y`."""
    operator = _OPERATORS[type(statement.operator)]
    return cst.BinaryOperation(parenthesized(statement.target), operator, parenthesized(statement.value))


def in_place(operator: cst.BaseBinaryOp) -> cst.BaseAugOp | None:
    """The operator of `x += y` for that of `x + y`; None where there is none."""
    found = [augmenting for augmenting, plain in _OPERATORS.items() if type(plain) is type(operator)]
    return found[0]() if found else None


# Where an expression stands as a receiver or an operand, and has parentheses where it needs them.
_OPERANDS: Mapping[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Attribute: ("value",),
    cst.Subscript: ("value",),
    cst.BinaryOperation: ("left", "right"),
    cst.UnaryOperation: ("expression",),
    cst.Comparison: ("left",),
    cst.Call: ("func",),
}
_ALL_OPERANDS = {**_OPERANDS, cst.BooleanOperation: ("left", "right"), cst.ComparisonTarget: ("comparator",)}
_NO_NAMES = {cst.Attribute: "attr", cst.Arg: "keyword"}


def copied(
    node: AnyNode,
    values: Mapping[str, Expr],
    operands: Mapping[type[cst.CSTNode], tuple[str, ...]] = _OPERANDS,
    bound: Callable[[cst.CSTNode], Iterable[str]] | None = None,
) -> AnyNode:
    """A copy of `node` with names replaced by expressions. White space and punctuation are shared with the original:
    LibCST's own copies and transformers take most of their time for those. `bound`: the names that are other ones in
    a comprehension or a lambda."""
    if isinstance(node, cst.Name) and node.value in values:
        return cast(AnyNode, values[node.value])
    if bound is not None and type(node) in _BINDING:
        own = {name for name in bound(node) if name in values}
        if own:
            inner = {name: value for name, value in values.items() if name not in own}
            made = copied(node, inner, operands, bound)
            if not isinstance(node, cst.Lambda):  # what it goes over first is evaluated outside
                comprehension = cast(cst.ListComp, node)
                first = copied(comprehension.for_in.iter, values, operands, bound)
                object.__setattr__(made, "for_in", cast(cst.ListComp, made).for_in.with_changes(iter=first))
            return made
    made = _shallow(node)
    for part in parts(type(node)):
        value = getattr(node, part)
        if part == _NO_NAMES.get(type(node)):
            continue
        if is_node(type(value)):
            new = copied(value, values, operands, bound)
            named = isinstance(value, cst.Name) and part in operands.get(type(node), ())
            filled = isinstance(value, cst.Name) and value.value in values
            if filled and isinstance(node, cst.Arg) and isinstance(new, _OPERATIONS):
                new = new.with_changes(lpar=[], rpar=[])
            object.__setattr__(made, part, parenthesized(new) if named else new)
        elif isinstance(value, list | tuple):
            object.__setattr__(made, part, [copied(one, values, operands, bound) for one in value])
    return made


def _shallow(node: AnyNode) -> AnyNode:
    """A copy of one node, which shares its parts: `copy.copy` works out the fields of LibCST's nodes each time."""
    made = object.__new__(type(node))
    for field in _fields(type(node)):
        object.__setattr__(made, field, getattr(node, field))
    return made


@functools.cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def substituted(node: AnyNode, values: Mapping[str, Expr]) -> AnyNode:
    """A copy of `node` with names replaced by expressions; attribute and keyword names stay, and the names that
    comprehensions and lambdas have for themselves."""
    return copied(node, values, _ALL_OPERANDS, _bound_in)


_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
_BINDING = {*_COMPREHENSIONS, cst.Lambda}


def _bound_in(node: cst.CSTNode) -> Iterator[str]:
    """The names that a comprehension binds, or the parameters of a lambda."""
    if isinstance(node, cst.Lambda):
        params = node.params
        yield from (each.name.value for each in (*params.params, *params.kwonly_params, *params.posonly_params))
        return
    each = node.for_in if isinstance(node, _COMPREHENSIONS) else None
    while each is not None:
        left = [each.target]
        while left:
            target = left.pop()
            if isinstance(target, cst.Name):
                yield target.value
            elif isinstance(target, cst.Tuple | cst.List):
                left += [one.value for one in target.elements]
        each = each.inner_for_in
