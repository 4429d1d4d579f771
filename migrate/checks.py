"""What is promised of every output, checked before it is written."""

from __future__ import annotations

from migrate.diagnostics import Diagnostic


def compiles(path: str, text: str) -> list[Diagnostic]:
    """Whether the output is valid Python; if not, that is a bug of the rewriter (MIG900)."""
    try:
        compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return [Diagnostic(path, 0, 0, "MIG900", f"the output does not compile: {error}")]
    return []
