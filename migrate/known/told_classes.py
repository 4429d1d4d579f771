"""What the tests around a place leave of a choice of classes: below `if args.model == "lstm"`, a model that such a
branch made is an LSTM again."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import libcst as cst

from migrate.syntax import nodes
from migrate.syntax.flags import flag_of, unnegated
from migrate.syntax.nodes import Expr


@dataclass(frozen=True)
class Choice:
    """A branch that makes a model of `yes`, some classes, where a test holds, and else of one of `no`, or as another
    branch has it."""

    test: Expr
    yes: frozenset[str]
    no: frozenset[str] | Choice

    def left_by(self, fact: Expr, holds: bool) -> frozenset[str]:
        """The classes that are possible where a test is known to hold, or not to."""
        rest = self.no.left_by(fact, holds) if isinstance(self.no, Choice) else self.no
        told = _told(self.test, fact, holds)
        return self.yes | rest if told is None else self.yes if told else rest


def _told(test: Expr, fact: Expr, holds: bool) -> bool | None:
    """Whether a test holds where another one is known to hold, or not to; None where that does not say."""
    (asked, positive), (known, sign) = flag_of(test), flag_of(fact)
    if asked == known:
        return (holds == sign) == positive
    one, other = _membership(unnegated(test)[0]), _membership(unnegated(fact)[0])
    if one is None or other is None or one[0] != other[0]:
        return None
    among, values = one[1], other[1]
    if holds == sign:  # it is one of those values
        inside = True if values <= among else False if not values & among else None
    else:
        inside = False if among <= values else None
    return None if inside is None else inside == positive


def _membership(test: Expr) -> tuple[str, frozenset[str]] | None:
    """What is compared, and the texts of which it is one where a test holds; None for others."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    (compared,) = test.comparisons
    if not isinstance(compared.operator, cst.Equal | cst.In):
        return None
    try:
        found = ast.literal_eval(nodes.code(compared.comparator))
    except (ValueError, SyntaxError):
        return None
    among = (found,) if isinstance(compared.operator, cst.Equal) else found
    plain = isinstance(among, tuple | list | set) and all(isinstance(one, str) for one in among)
    return (nodes.code(test.left), frozenset(among)) if plain else None
