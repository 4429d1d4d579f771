"""Coverage over public scripts: `python -m tests.corpus fetch`, `… run [NAME …]`, `… page`.

`fetch` clones the repositories at their commits, `run` tries scripts and keeps what it finds in results.json, `page`
writes docs/coverage.md from that file. The scripts themselves stay out of the project.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tests.corpus import coverage
from tests.corpus.entries import PACKAGES, Entry, entries, packages, repositories
from tests.corpus.running import Outcome, tried

app = typer.Typer(add_completion=False, help=__doc__)
Corpus = Annotated[Path, typer.Option(help="The folder of the repositories.")]


@app.command()
def fetch(corpus: Corpus = Path("corpus")) -> None:
    """Clones each repository at its commit, without its history, and installs what the scripts import."""
    _installed(packages(), corpus / PACKAGES)
    for repository, commit in repositories().items():
        folder = corpus / repository.replace("/", "+")
        folder.mkdir(parents=True, exist_ok=True)
        if repository.startswith("pypi/"):
            _installed([f"{repository.removeprefix('pypi/')}=={commit}"], folder)
            continue
        for command in (
            ["init", "--quiet"],
            ["fetch", "--quiet", "--depth=1", f"https://github.com/{repository}", commit],
            ["checkout", "--quiet", "FETCH_HEAD"],
        ):
            subprocess.run(["git", "-C", str(folder), *command], check=True)


def _installed(names: list[str], folder: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *names]
    subprocess.run(install, check=True)


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(help="Which entries (default: all).")] = None,
    corpus: Corpus = Path("corpus"),
    timeout: Annotated[float, typer.Option(help="Seconds for one command.")] = 900,
    workers: Annotated[int, typer.Option(help="How many at once.")] = 2,
    keep: Annotated[bool, typer.Option(help="Keep the outcomes in results.json.")] = True,
) -> None:
    """Tries entries and prints the stage that each reaches."""
    console = Console(width=160)

    def one(entry: Entry) -> tuple[Entry, Outcome]:
        return entry, tried(entry, corpus.resolve(), timeout)

    chosen = [entry for entry in entries() if not names or entry.name in names]
    with ThreadPoolExecutor(workers) as pool:
        for entry, outcome in pool.map(one, chosen):
            codes = " ".join(f"{code}:{count}" for code, count in outcome.codes.items())
            console.print(f"{entry.name:34} {outcome.stage:12} {codes} {outcome.said}", markup=False, highlight=False)
            if keep:
                coverage.keep(entry, outcome)


@app.command()
def page() -> None:
    """Writes docs/coverage.md from results.json."""
    coverage.PAGE.write_text(coverage.page())


if __name__ == "__main__":
    app()
