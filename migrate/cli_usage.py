"""How a command line that cannot be followed ends."""

from __future__ import annotations

from typing import NoReturn

import typer


def fail(message: str, code: int = 2) -> NoReturn:
    """Say why, and end with the exit code."""
    typer.echo(message, err=True)
    raise typer.Exit(code)
