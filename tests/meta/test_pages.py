"""The generated pages of the documentation are fresh. `MIGRATE_UPDATE_DOCS=1` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migrate.reference import pages
from parity.operations.page import page as operations_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {**{name: lambda name=name: pages()[name] for name in pages()}, "reference/operations.md": operations_page}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_generated_page_is_fresh(name: str) -> None:
    text = PAGES[name]()
    if os.environ.get("MIGRATE_UPDATE_DOCS") == "1":
        (DOCS / name).write_text(text, encoding="utf-8")
    assert (DOCS / name).read_text(encoding="utf-8") == text
