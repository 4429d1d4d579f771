"""The public scripts that coverage is measured on: where each is found, at which commit, and how it is run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.corpus import chapters

ENTRIES = Path(__file__).with_name("entries.json")


@dataclass(frozen=True)
class Entry:
    """One script, or the model class `model` of a file. `root` is the folder that it needs, `replace` what is made
    smaller, `setup` what it finds there. A model is made with `constructor` and fed `inputs`, as `migrate parity --model`
    takes them, or as the file `recipe` of the folder recipes says."""

    name: str
    set: str  # "development": worked on; "blind": every n-th of its repository, tried before anything was mended for it
    repository: str
    path: str
    steps: int = 0
    model: str = ""
    constructor: str = ""
    inputs: str = ""
    recipe: str = ""
    root: str | None = None
    arguments: list[str] = field(default_factory=list)
    setup: list[Any] = field(default_factory=list)
    replace: dict[str, str] = field(default_factory=dict)
    image_size: int | None = None
    # Why its numbers cannot be compared on a test machine: data, packages or hardware that it cannot have.
    not_run: str = ""

    @property
    def folder(self) -> str:
        """The folder of the repository below the corpus."""
        return self.repository.replace("/", "+")

    def copy_to(self, corpus: Path, target: Path) -> Path:
        """Copies what the script needs into `target`; the script's place there."""
        import shutil

        source = corpus / self.folder / self.path
        root = corpus / self.folder / self.root if self.root else source.parent
        if source.suffix == ".md":
            script = target / f"{source.stem.replace('-', '_')}.py"
            target.mkdir(parents=True)
            script.write_text(chapters.script(source.read_text()))
            shutil.copytree(corpus / self.folder / "d2l", target / "d2l")
            return script
        shutil.copytree(root, target, ignore=shutil.ignore_patterns(".git", "*.ipynb", "docs", "results"))
        script = target / source.relative_to(root)
        text = script.read_text()
        for old, new in self.replace.items():
            if old not in text:
                raise ValueError(f"{self.name}: {self.path} has no {old!r}")
            text = text.replace(old, new)
        script.write_text(text)
        return script


PACKAGES = "packages"  # the folder of the corpus that they are installed into


def packages() -> list[str]:
    """What the scripts import beside what the tests need, to be installed without what it asks for in turn."""
    return json.loads(ENTRIES.read_text())[PACKAGES]


def repositories() -> dict[str, str]:
    """Repository -> commit."""
    return json.loads(ENTRIES.read_text())["repositories"]


def entries() -> list[Entry]:
    return [Entry(**entry) for entry in json.loads(ENTRIES.read_text())["entries"]]
