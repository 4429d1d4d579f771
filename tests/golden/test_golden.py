"""Golden files: whole features, a folder each. `MIGRATE_UPDATE_GOLDEN=1 pytest tests/golden` writes them anew.

Each folder holds `before.py`, and what it becomes: `after.py`, `report.txt`, `weights.json`. Read the difference before you
commit an update: it is what users will see.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from migrate import manifest as manifests
from migrate.pipeline import convert
from migrate.files.source import parse

GOLDEN = Path(__file__).parent
FEATURES = sorted(path.parent.name for path in GOLDEN.glob("*/before.py"))
UPDATE = os.environ.get("MIGRATE_UPDATE_GOLDEN") == "1"


def outputs(feature: str) -> dict[str, str]:
    source = parse("before.py", (GOLDEN / feature / "before.py").read_text(encoding="utf-8"))
    conversion = convert(source)
    return {
        "after.py": conversion.text,
        "report.txt": conversion.report.as_text(),
        "weights.json": manifests.dumps(conversion.manifest),
    }


@pytest.mark.parametrize("feature", FEATURES)
def test_output(feature: str) -> None:
    made = outputs(feature)
    for name, text in made.items():
        path = GOLDEN / feature / name
        if UPDATE:
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{feature}/{name} is out of date"


@pytest.mark.parametrize("feature", FEATURES)
def test_output_compiles_and_is_stable(feature: str) -> None:
    after = (GOLDEN / feature / "after.py").read_text(encoding="utf-8")
    compile(after, "after.py", "exec")
    if "raise NotImplementedError" not in after:
        assert convert(parse("after.py", after)).text == after


def test_there_are_golden_files() -> None:
    assert len(FEATURES) >= 10
