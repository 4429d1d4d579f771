"""What can go wrong in porting weights, as one exception that carries a code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

LINE = 1000  # characters of a line of a message; names in damaged files can be of any length
SHOWN = 20  # problems listed in one message; a wrong checkpoint has hundreds of the same kind


@dataclass(frozen=True)
class Problem:
    """One finding: its code, what is wrong and where, and what to do."""

    code: str
    message: str
    help: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f"\n    {self.help}" if self.help else "")


def shortened(text: str) -> str:
    """The text with the middle of very long lines left out."""
    half = LINE // 2
    lines = (line if len(line) <= LINE else f"{line[:half]} ... {line[-half:]}" for line in text.split("\n"))
    return "\n".join(lines)


class PortError(Exception):
    """Porting stopped and nothing was written. ``code`` is in ``weight_port.codes.CODES``.

    ``problems`` holds every finding where there are several; ``message`` then lists them.
    """

    def __init__(self, code: str, message: str, help: str = "", problems: tuple[Problem, ...] = ()) -> None:
        message, help = shortened(message), shortened(help)
        super().__init__(message)
        self.code, self.message, self.help = code, message, help
        self.problems: tuple[Problem, ...] = problems or (Problem(code, message, help),)

    @property
    def exit_code(self) -> int:
        """1 where checkpoint and manifest do not fit (WPT1xx), 2 where one of them could not be used at all."""
        return 1 if self.code.startswith("WPT1") else 2

    def __str__(self) -> str:
        return self.message if len(self.problems) > 1 else str(Problem(self.code, self.message, self.help))


class SeveralStateDicts(PortError):
    """A checkpoint holds several state dicts and none was chosen; ``keys`` are where."""

    def __init__(self, message: str, help: str, keys: tuple[str, ...]) -> None:
        super().__init__("WPT004", message, help)
        self.keys = keys


def fail(code: str, message: str, help: str = "") -> NoReturn:
    """Raise a PortError."""
    raise PortError(code, message, help)


def raise_all(found: Sequence[Problem], what: str) -> None:
    """Raise one PortError for everything ``found``, if anything was; ``what`` opens the message of several."""
    if not found:
        return
    if len(found) == 1:
        raise PortError(found[0].code, found[0].message, found[0].help)
    lines = [f"{what}: {len(found)} problems", *map(str, found[:SHOWN])]
    if len(found) > SHOWN:
        lines.append(f"... and {len(found) - SHOWN} more")
    raise PortError(found[0].code, "\n".join(lines), problems=tuple(found))


class Misfit(Exception):
    """A tensor that does not become the leaf; ``code`` says how."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
