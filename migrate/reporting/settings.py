"""`[tool.migrate]` of the user's pyproject.toml."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path


class SettingsError(ValueError):
    """A pyproject.toml that cannot be used. The message names the file and what is wrong in it."""


@dataclass(frozen=True)
class Settings:
    """What the user asked for, in pyproject.toml or on the command line."""

    select: tuple[str, ...] = ()  # codes or their beginnings that are reported; all where empty
    ignore: tuple[str, ...] = ()  # codes or their beginnings that are not
    exclude: tuple[str, ...] = ()  # patterns of files and folders that are left out of a folder
    format: str = "text"

    def with_options(
        self, select: Sequence[str] = (), ignore: Sequence[str] = (), format: str | None = None
    ) -> Settings:
        """These settings with what the command line says: it replaces `select`, adds to `ignore`."""
        return replace(
            self,
            select=_codes(select) or self.select,
            ignore=(*self.ignore, *_codes(ignore)),
            format=format or self.format,
        )


FORMATS = ("text", "json", "sarif", "github")


def read_settings(start: Path) -> Settings:
    """The settings for files below `start`: from the nearest pyproject.toml that has a `[tool.migrate]` table.

    Raises SettingsError.
    """
    start = Path(start).absolute()
    for folder in [start, *start.parents]:
        path = folder / "pyproject.toml"
        if not path.is_file():
            continue
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("migrate")
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"{path}: {error}") from None
        if table is not None:
            return _settings(table, path)
    return Settings()


def _settings(table: dict[str, object], path: Path) -> Settings:
    known = [field.name for field in fields(Settings)]
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean `{near[0]}`?" if near else f"; the keys are {', '.join(known)}"
            raise SettingsError(f"{path}: [tool.migrate] has no key `{key}`{hint}")
    lists = {}
    for key in ("select", "ignore", "exclude"):
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise SettingsError(f"{path}: [tool.migrate] {key} must be a list of strings")
        lists[key] = tuple(value) if key == "exclude" else _codes(value)
    format = table.get("format", "text")
    if format not in FORMATS:
        raise SettingsError(f"{path}: [tool.migrate] format must be one of {', '.join(FORMATS)}")
    return Settings(**lists, format=str(format))


def _codes(values: Sequence[str]) -> tuple[str, ...]:
    """Codes as they are given: also several with commas between them."""
    return tuple(code.strip().upper() for value in values for code in value.split(",") if code.strip())
