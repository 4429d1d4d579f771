"""`python -m tests.bench.rewriting [FOLDER] [--files N]`: the time of `migrate report` over LibCST's own.

CPU time for the same files, taken in turns within one process: what LibCST needs to parse each and to find the place
of every node, and what the rewriter needs for all it does. By default the files are those of the installed torchvision
or, where there is none, of torch: models, losses and loops of training code that nobody wrote for this.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from migrate.files.reached_files import uses_torch
from migrate.files.source import load
from migrate.pipeline import convert
from migrate.syntax.deep import deeply

PACKAGES = ("torchvision", "torch")


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints both times and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=None)
    parser.add_argument("--files", type=int, default=30)
    given = parser.parse_args(arguments)
    folder = given.folder or installed(PACKAGES)
    files = chosen(folder, given.files)
    theirs, ours = measured(files)
    lines = sum(path.read_text(encoding="utf-8").count("\n") for path in files)
    print(
        f"rewriting {len(files)} files, {lines} lines of {folder.name}: {ours:.1f} s CPU, LibCST's parse and metadata "
        f"{theirs:.1f} s: {ours / theirs:.1f} times"
    )


def installed(names: Sequence[str]) -> Path:
    """The folder of the first of some packages that is installed. It is not imported."""
    for name in names:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            return Path(found.origin).parent
    sys.exit(f"none of {', '.join(names)} is installed: name a folder")


def chosen(folder: Path, count: int) -> list[Path]:
    """Every n-th of the files of a folder that use torch."""
    files = [path for path in sorted(folder.rglob("*.py")) if uses_torch(path)]
    return files[:: max(1, len(files) // count)][:count]


def measured(files: Sequence[Path]) -> tuple[float, float]:
    """CPU seconds of LibCST alone and of the rewriter. The first file is done once before, for what is made once."""
    theirs = ours = 0.0
    alone(files[0])
    rewritten(files[0])
    for path in files:
        theirs += seconds(lambda path=path: alone(path))
        ours += seconds(lambda path=path: rewritten(path))
    return theirs, ours


def seconds(work: Callable[[], object]) -> float:
    """The CPU seconds of this process for some work, that of its threads with it."""
    started = time.process_time()
    work()
    return time.process_time() - started


def alone(path: Path) -> None:
    """What LibCST does by itself."""
    text = path.read_text(encoding="utf-8")
    deeply(lambda: MetadataWrapper(cst.parse_module(text)).resolve(PositionProvider))


def rewritten(path: Path) -> None:
    """What the rewriter does with a file whose imports are not followed."""
    convert(load(path))


if __name__ == "__main__":
    main()
