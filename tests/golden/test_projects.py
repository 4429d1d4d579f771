"""Projects of several files: a folder each, with `before/`, and what it becomes: `after/` and `report.txt`.

`MIGRATE_UPDATE_GOLDEN=1 pytest tests/golden` writes them anew; read the difference.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from migrate import manifest as manifests
from migrate.pipeline import ProjectConversion, convert_project
from migrate.files.project import read_project

PROJECTS = Path(__file__).parent / "projects"
NAMES = sorted(path.name for path in PROJECTS.iterdir() if (path / "before").is_dir())
UPDATE = os.environ.get("MIGRATE_UPDATE_GOLDEN") == "1"


def converted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectConversion:
    monkeypatch.chdir(folder)
    return convert_project(read_project([Path("train.py")]))


def files_of(conversion: ProjectConversion) -> dict[str, str]:
    made = {output.member.place: output.data.decode() for output in conversion.outputs}
    return made | {"weights.json": manifests.dumps(conversion.manifest)}


def files_in(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in (".py", ".json")
    }


@pytest.mark.parametrize("name", NAMES)
def test_output(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    conversion = converted(PROJECTS / name / "before", monkeypatch)
    after, report = PROJECTS / name / "after", PROJECTS / name / "report.txt"
    if UPDATE:
        shutil.rmtree(after, ignore_errors=True)
        for place, text in files_of(conversion).items():
            (after / place).parent.mkdir(parents=True, exist_ok=True)
            (after / place).write_text(text, encoding="utf-8")
        report.write_text(conversion.report.as_text(), encoding="utf-8")
    assert files_in(after) == files_of(conversion)
    assert report.read_text(encoding="utf-8") == conversion.report.as_text()


@pytest.mark.parametrize("name", NAMES)
def test_output_is_stable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    again = converted(PROJECTS / name / "after", monkeypatch)
    assert not [output.member.place for output in again.outputs if output.changed]
