"""The folders that scripts run in: a fresh copy for each run, so that nothing of the user's is overwritten."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from migrate.files.project import read_project
from parity.codes import ParityError

# Never needed by a run, and often large.
_LEFT_OUT = {
    ".git", ".hg", ".venv", "venv", "env", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache",
    ".tox", ".ipynb_checkpoints", "wandb",
}  # fmt: skip
MAX_BYTES, MAX_FILES = 4_000_000_000, 50_000


def project_root(script: Path, rewritten: Path) -> Path:
    """The top folder of the project of a script, if it was rewritten as a project: then its name is the same."""
    own = script.absolute().parent
    return read_project([script]).root if rewritten.name == script.name else own


def manifest_of(rewritten: Path, script: Path, root: Path) -> Path | None:
    """The manifest beside a rewritten script, or at the top of its project; None where a script has no models."""
    depth = len(script.absolute().relative_to(root).parts) - 1
    beside = rewritten.absolute().parents[depth] / "weights.json"
    return beside if beside.is_file() else None


def copy_for_run(script: Path, target: Path, overlay: Path | None = None, root: Path | None = None) -> Path:
    """Copy the project folder of `script` to `target`, then that of `overlay` over it; the copy of the file to run.

    The rewritten file runs where the original would find its data: over a copy of the original's folder. `root` is the
    top folder of the original's project, its own folder if None; `overlay` lies as deep below the top of its project.
    """
    root = script.parent if root is None else root
    place = script.relative_to(root)
    copy_folder(root, target)
    if overlay is None:
        return target / place
    top = overlay.parents[len(place.parts) - 1]
    if top != root:
        copy_folder(top, target)
    return target / place.with_name(overlay.name)


def copy_folder(source: Path, target: Path) -> None:
    """Raises ParityError PAR208 where the folder is too large to be the project of one script."""
    files = size = 0
    for folder, names, entries in os.walk(source):
        names[:] = [name for name in names if not _left_out(Path(folder, name), target)]
        files += len(entries)
        size += sum(_size(os.path.join(folder, entry)) for entry in entries)
        if files > MAX_FILES or size > MAX_BYTES:
            raise ParityError(
                "PAR208",
                f"{source} holds more than {MAX_BYTES // 10**9} GB or {MAX_FILES} files; each run works in a copy of "
                "that folder: move the script, and what it reads, into a folder of its own",
            )
    shutil.copytree(
        source,
        target,
        dirs_exist_ok=True,
        ignore_dangling_symlinks=True,
        ignore=lambda folder, names: [name for name in names if _left_out(Path(folder, name), target)],
    )


def _left_out(path: Path, target: Path) -> bool:
    return path.name in _LEFT_OUT or path.resolve() in (target.resolve(), *target.resolve().parents)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
