"""What `migrate port-weights` and `migrate inspect` do between the command line and the porter."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from migrate.manifest import dumps, replacing
from weight_port.checkpoint import open_checkpoint
from weight_port.drafts import draft, undecided
from weight_port.errors import PortError, fail
from weight_port.families import family_manifest
from weight_port.optimizer_files import OptimizerOptions
from weight_port.port import port_weights

INTERRUPTED = 130  # what a shell says of a command that was stopped from the keyboard
WIDEST = 10_000  # columns
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Asked:
    """The options of `migrate port-weights` that need reading."""

    shard_size: str | None = None
    dtype_rules: Sequence[str] = ()
    init_map: Path | None = None
    family: str | None = None
    layout: str | None = None
    optimizer: str | None = None
    optimizer_from: Path | None = None
    optimizer_key: str | None = None
    param_names: str | None = None
    optimizer_step: int | None = None
    as_saved: bool = False

    def state(self) -> OptimizerOptions | None:
        """What to do with the optimizer's state, None where nothing was asked."""
        more = {"--optimizer-from": self.optimizer_from, "--optimizer-key": self.optimizer_key,
                "--param-names": self.param_names, "--optimizer-step": self.optimizer_step}  # fmt: skip
        given = [name for name, value in more.items() if value is not None]
        if self.as_saved and not self.optimizer and set(given) <= {"--param-names"}:
            return OptimizerOptions("auto", names=self.param_names) if given else None
        if self.optimizer is None and given:
            fail("WPT009", f"{given[0]} is of use with --optimizer only", "Say --optimizer auto, or which chain.")
        return None if self.optimizer is None else OptimizerOptions(self.optimizer, *more.values())

    def check(self, manifest: Path | None, options: Mapping[str, Any]) -> None:
        """Raises PortError WPT009 where options contradict one another."""
        if not self.as_saved:
            return
        chosen = {"--key": options["key"], "--reverse": options["reverse"]}
        chosen |= {"--optimizer": self.optimizer, "--mesh": options["mesh"], "--shard-size": self.shard_size}
        told = [name for name, value in chosen.items() if value]
        if told:
            fail("WPT009", f"--as-saved ports all that a file holds; {told[0]} is of no use with it")
        if manifest is None:
            fail("WPT009", "--as-saved needs the manifest that `migrate rewrite` wrote", "Name it by --manifest.")


def port(checkpoint: Path, manifest: Path | None, output: Path | None, asked: Asked, **options: Any) -> int:
    """Port, or draft a manifest; returns the exit code."""
    try:
        with _stopping():
            if asked.init_map is not None:
                return _draft(checkpoint, asked.init_map, options["model"], options["key"])
            if manifest is not None and (asked.family or asked.layout):
                fail("WPT009", "a manifest and a family were named", "Give one of them.")
            asked.check(manifest, options)
            weights = manifest or family_manifest(
                checkpoint, asked.family, layout=asked.layout, reverse=options["reverse"], key=options["key"]
            )
            with _bar("porting") as progress:
                report = port_weights(
                    checkpoint, weights, output, shard_size=_bytes(asked.shard_size),
                    dtype_rules=[_rule(rule) for rule in asked.dtype_rules], progress=progress,
                    optimizer=asked.state(), as_saved=asked.as_saved, **options,
                )  # fmt: skip
    except PortError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        left = "what is finished waits for another run with --resume" if options["resume"] else "nothing was written"
        print(f"interrupted; {left}", file=sys.stderr)
        return INTERRUPTED
    report.render(_console())
    return 0


def inspect(path: Path, key: str | None, as_json: bool) -> int:
    """List what a checkpoint holds; returns the exit code."""
    from weight_port.inspection import inspect

    try:
        found = inspect(path, key)
    except PortError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if as_json:
        sys.stdout.write(found.as_json())
    else:
        found.render(_console())
    return 0


def _draft(checkpoint: Path, where: Path, model: str | None, key: str | None) -> int:
    """Write a draft of a manifest; 1 where a person has to finish it."""
    if where.exists():
        fail("WPT009", f"{where} exists already", "A manifest that somebody may have edited is not overwritten.")
    made = draft(open_checkpoint(checkpoint, key=key, allow_expanded=True), model or "Model", checkpoint.name)
    try:
        with replacing(where) as file:
            file.write(dumps(made).encode())
    except OSError as error:
        fail("WPT010", f"cannot write {where}: {error.strerror or error}")
    count = undecided(made)
    print(f"{where}: {len(made.models[0].leaves)} leaves drafted, {count} of them undecided"
          + ("; replace each \"undecided: …\" by one of the moves that it names" if count else ""))  # fmt: skip
    return 1 if count else 0


def _bytes(text: str | None) -> int | None:
    """A size such as 5GB, 500MB, 2GiB or 1000 in bytes."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([a-zA-Z]*)", text.strip())
    if found is None or found[2].upper() not in _UNITS or float(found[1]) == 0:
        fail("WPT009", f"{text!r} is not a size", "Sizes look like 5GB, 500MB or 2GiB.")
    return max(1, int(float(found[1]) * _UNITS[found[2].upper()]))


def _rule(text: str) -> tuple[str, str]:
    pattern, equals, name = text.rpartition("=")
    if not equals or not pattern:
        fail(
            "WPT009", f"{text!r} is not a rule for types", "Rules look like 'params/*/bias=float32' or '*/scale=keep'."
        )
    return pattern, name


def _console() -> Console:
    """Standard output; in a pipe as wide as it has to be, so that no name is broken in two."""
    return Console() if sys.stdout.isatty() else Console(width=WIDEST)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar by bytes on a terminal, None elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


@contextmanager
def _stopping() -> Iterator[None]:
    """A request to end (SIGTERM) unwinds as Ctrl-C does, so that nothing is left half-written."""

    def stop(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
