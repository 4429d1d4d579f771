"""Write a folder whole or not at all, and go on where an interrupted run stopped.

The files are written into a hidden folder beside the one that was asked for, which is renamed at the end. A journal in
it lists the files that are finished; a later run of the same port passes over them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

JOURNAL = ".finished.json"


class Stage:
    """A folder in the making."""

    def __init__(self, folder: Path, fingerprint: str, finished: dict[str, int], skip: Callable[[int], None]) -> None:
        self.folder, self._fingerprint, self._finished, self._skip = folder, fingerprint, finished, skip

    def file(self, name: str, write: Callable[[IO[bytes]], object], nbytes: int) -> None:
        """Have ``write`` fill a file, unless an earlier run did. ``nbytes``: what is passed over then."""
        path = self.folder / name
        if name in self._finished and path.is_file() and path.stat().st_size == self._finished[name]:
            self._skip(nbytes)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            write(file)
        self._finished[name] = path.stat().st_size
        text = json.dumps({"fingerprint": self._fingerprint, "files": self._finished})
        (self.folder / f"{JOURNAL}.new").write_text(text)
        os.replace(self.folder / f"{JOURNAL}.new", self.folder / JOURNAL)


@contextmanager
def staged(path: Path, fingerprint: str, *, resume: bool, skip: Callable[[int], None]) -> Iterator[Stage]:
    """A `Stage` whose folder becomes ``path`` at the end.

    After an error nothing is left behind, unless ``resume`` is set: then what is finished waits for the next run with
    the same fingerprint.
    """
    folder = path.with_name(f".{path.name}.partial")
    finished = _finished(folder, fingerprint) if resume else {}
    if not finished and folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield Stage(folder, fingerprint, finished, skip)
        (folder / JOURNAL).unlink(missing_ok=True)
        if path.exists():
            path.rmdir()  # an empty folder: others were refused
        os.replace(folder, path)
    except BaseException:
        if not resume:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _finished(folder: Path, fingerprint: str) -> dict[str, int]:
    try:
        journal = json.loads((folder / JOURNAL).read_text())
        return dict(journal["files"]) if journal["fingerprint"] == fingerprint else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
