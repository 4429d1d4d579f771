"""The generated pages of the documentation are fresh. `MIGRATE_UPDATE_DOCS=1` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migrate.reference import pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_page_is_fresh(name: str) -> None:
    text = pages()[name]
    if os.environ.get("MIGRATE_UPDATE_DOCS") == "1":
        (DOCS / name).write_text(text, encoding="utf-8")
    assert (DOCS / name).read_text(encoding="utf-8") == text
