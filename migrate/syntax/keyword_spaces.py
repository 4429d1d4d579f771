"""Keywords that touch a parenthesis: `assert(x)`, `return(x)`, `a if(b)else c`.

What comes into the place of `(x)` may have no parentheses, and LibCST makes no tree that would read `assertx`.
"""

from __future__ import annotations

import re

import libcst as cst

from migrate.syntax.walking import every

_TOUCHING = re.compile(
    r"\b(assert|return|raise|if|elif|else|while|for|in|not|and|or|is|del|with|yield|await)\(|\)[a-z]"
)
_SPACES = {
    cst.Assert: ("whitespace_after_assert",),
    cst.Return: ("whitespace_after_return",),
    cst.Raise: ("whitespace_after_raise",),
    cst.Del: ("whitespace_after_del",),
    cst.Yield: ("whitespace_after_yield",),
    cst.Await: ("whitespace_after_await",),
    cst.If: ("whitespace_before_test",),
    cst.While: ("whitespace_after_while",),
    cst.With: ("whitespace_after_with",),
    cst.For: ("whitespace_after_for", "whitespace_before_in", "whitespace_after_in"),
    cst.CompFor: ("whitespace_before", "whitespace_after_for", "whitespace_before_in", "whitespace_after_in"),
    cst.CompIf: ("whitespace_before", "whitespace_before_test"),
    cst.IfExp: ("whitespace_before_if", "whitespace_after_if", "whitespace_before_else", "whitespace_after_else"),
    cst.And: ("whitespace_before", "whitespace_after"),
    cst.Or: ("whitespace_before", "whitespace_after"),
    cst.In: ("whitespace_before", "whitespace_after"),
    cst.NotIn: ("whitespace_before", "whitespace_after"),
    cst.Is: ("whitespace_before", "whitespace_after"),
    cst.IsNot: ("whitespace_before", "whitespace_after"),
    cst.Not: ("whitespace_after",),
}
_OPERATED = (cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)
_ALONE = (cst.Return, cst.Raise, cst.Yield)  # what may stand without an expression, and then has no space either


def keep_apart(module: cst.Module, text: str) -> None:
    """Puts a space where a keyword touches a parenthesis. Changes the tree that the parser has just made: its nodes
    keep their places, and the text of a file that nothing is rewritten in is its own."""
    if not _TOUCHING.search(text):
        return
    for node in every(module, (*_SPACES, *_OPERATED)):
        for spaced in _operators(node) if isinstance(node, _OPERATED) else [node]:
            for name in _SPACES.get(type(spaced), ()):
                space = getattr(spaced, name)
                alone = isinstance(spaced, _ALONE) and not (
                    getattr(spaced, "value", None) or getattr(spaced, "exc", None)
                )
                if isinstance(space, cst.SimpleWhitespace) and not space.value and not alone:
                    object.__setattr__(spaced, name, cst.SimpleWhitespace(" "))


def _operators(node: cst.CSTNode) -> list[cst.CSTNode]:
    if isinstance(node, cst.Comparison):
        return [target.operator for target in node.comparisons]
    return [node.operator] if isinstance(node, cst.BooleanOperation | cst.UnaryOperation) else []
