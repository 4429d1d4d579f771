"""Comparisons and sums of names and constants, worked out as Python would."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping

from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

_NAMES_AND_CONSTANTS = (ast.Expression, ast.Name, ast.expr_context, ast.Constant, ast.Tuple)
_TESTS = (ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop, ast.Compare, ast.cmpop)
_SUMS = (ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_TERMS = (*_NAMES_AND_CONSTANTS, *_TESTS, *_SUMS)


def reckoned(node: Expr, values: Mapping[str, object]) -> object:
    """What names and constants come to, compared and added up; `...` of any other expression."""
    if not is_reckoned(node) or not set(usage.loads(node)) <= values.keys():
        return ...
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # `0.5 is None`, of constants that stand for names
            return eval(nodes.code(node), {"__builtins__": {}}, dict(values))
    except (TypeError, ArithmeticError):  # the program would end here
        return ...


def is_reckoned(test: Expr) -> bool:
    """Whether a test is nothing but comparisons and sums of names and constants."""
    return all(isinstance(part, _TERMS) for part in ast.walk(ast.parse(nodes.code(test).strip(), mode="eval")))
