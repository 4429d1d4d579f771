"""Names of attributes that a script puts together: `f"conv{i}"`, `"conv%d" % i`, `"conv{}".format(i)`."""

from __future__ import annotations

import ast
import re

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_PARTS = (ast.Expression, ast.Constant, ast.Tuple, ast.expr_context)
_TERMS = (*_PARTS, ast.BinOp, ast.Add, ast.Sub, ast.Mod, ast.Call, ast.Attribute, ast.Name)


_FIELD = r"\{(\d?)(?::d)?\}"  # of a format: `{}`, `{0}`, `{:d}`


def pattern(name: Expr) -> str | None:
    """The name of numbered attributes, with {} for the number; None for any other."""
    found = numbered(name) or ""
    return found if found.count("{}") == 1 and found.replace("{}", "0").isidentifier() else None


def of_class(name: Expr) -> bool:
    """Whether a name has that of a class in it, which may be another one in the output."""
    return any(one.attr.value == "__name__" for one in every(name, cst.Attribute))


def numbered(name: Expr) -> str | None:
    """A name that is put together of texts and numbers, with {} for each of those; None for any other."""
    if of_class(name):
        return None  # which is no number
    if isinstance(name, cst.FormattedString):
        parts = [part.value if isinstance(part, cst.FormattedStringText) else "{}" for part in name.parts]
        found = "".join(parts)
    elif isinstance(name, cst.BinaryOperation) and isinstance(name.operator, cst.Add):
        left, right = nodes.literal(name.left), name.right
        numbered = isinstance(right, cst.Call) and nodes.dotted(right.func) == "str"
        found = f"{left}{{}}" if isinstance(left, str) and numbered else ""
    elif isinstance(name, cst.BinaryOperation) and isinstance(name.operator, cst.Modulo):
        left = nodes.literal(name.left)
        found = re.sub(r"%[ds]", "{}", left) if isinstance(left, str) else ""
    elif isinstance(name, cst.Call) and isinstance(name.func, cst.Attribute) and name.func.attr.value == "format":
        found = _formatted(name, nodes.literal(name.func.value))
    else:
        found = ""
    return found if "{}" in found and "." not in found else None


def _formatted(call: cst.Call, left: object) -> str:
    """What `left.format(...)` comes to, with {} for each argument that is no text; "" where that is not told."""
    fields = re.findall(_FIELD, left) if isinstance(left, str) else []
    places = [int(field or place) for place, field in enumerate(fields)]
    mixed = "" in fields and any(fields)
    if not isinstance(left, str) or mixed or any(arg.star or arg.keyword for arg in call.args):
        return ""
    if sorted(places) != list(range(len(call.args))):
        return ""
    given = [nodes.literal(arg.value) for arg in call.args]
    if any(isinstance(value, str) and set(value) & set("{}") for value in given):
        return ""
    parts = [value if isinstance(value, str) else "{}" for value in (given[place] for place in places)]
    texts = re.split(_FIELD, left)[::2]
    return "".join(text + part for text, part in zip(texts, [*parts, ""], strict=True))


def any_of(name: Expr) -> str | None:
    """A name as `text` or as `numbered` has it; None for any other."""
    return text(name) or numbered(name)


def text(name: Expr) -> str | None:
    """The name that an expression of constants gives; None of any other."""
    found = _value(name)
    return found if isinstance(found, str) else None


def _value(name: Expr) -> str | int | None:
    if isinstance(name, cst.FormattedString):
        parts = [_part(part) for part in name.parts]
        return None if None in parts else "".join(map(str, parts))
    try:
        tree = ast.parse(nodes.code(name).strip(), mode="eval")
    except SyntaxError:
        return None
    plain = all(isinstance(part, _TERMS) and _harmless(part) for part in ast.walk(tree))
    try:
        value = eval(compile(tree, "", "eval"), {"__builtins__": {"str": str}}) if plain else None
    except (TypeError, ValueError, LookupError, NameError, AttributeError):
        return None
    return value if isinstance(value, str | int) else None


def _part(part: cst.BaseFormattedStringContent) -> str | int | None:
    """A part of an f-string, where it is a constant."""
    if isinstance(part, cst.FormattedStringText):
        return part.value
    plain = isinstance(part, cst.FormattedStringExpression) and part.format_spec is None and part.conversion is None
    return _value(part.expression) if plain and isinstance(part, cst.FormattedStringExpression) else None


def _harmless(part: ast.AST) -> bool:
    """Whether a term is none of those that may do more than put a text together."""
    if isinstance(part, ast.Attribute):
        return part.attr == "format" and isinstance(part.value, ast.Constant) and "." not in str(part.value.value)
    if isinstance(part, ast.Constant):
        return re.search(r"\d{4}", str(part.value)) is None  # the width of a field
    return not isinstance(part, ast.Name) or part.id == "str"
