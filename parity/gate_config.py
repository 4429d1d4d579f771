"""What the gate is asked to hold: `parity.toml`, or `[tool.migrate.gate]` of a pyproject.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

from parity.codes import ParityError
from parity.judge import Budget
from parity.modes import MODES

_TOP = {"subject": list, "budget": list, "ratchet": str, "timeout": (int, float)}
_SUBJECT = {
    "name": str, "script": str, "rewritten": str, "manifest": str, "prelude": str, "argv": list, "steps": int,
    "model": str, "jax": str, "weights": str, "args": str, "inputs": str, "recipe": str, "modes": list, "seed": int,
    "perturbed_runs": int, "fresh": bool, "torch_python": str, "jax_python": str,
}  # fmt: skip
_BUDGET = {
    "subject": str, "tensor": str, "mode": str, "ratio": (int, float), "absolute": (int, float), "owner": str,
    "reason": str, "expires": date,
}  # fmt: skip
# What the two kinds of subject have of their own; the rest both have.
_OF_SCRIPTS = {"script", "rewritten", "prelude", "argv", "steps", "fresh"}
_OF_MODELS = {"model", "jax", "weights", "args", "inputs", "recipe", "seed"}
_FILES = ("script", "rewritten", "manifest", "prelude", "weights", "recipe", "model", "jax")


@dataclass(frozen=True)
class GateSubject:
    """A script or a model; paths are those of the file, relative to it, joined with its folder."""

    name: str
    options: dict[str, Any]
    modes: tuple[str, ...] = ("jit",)

    def path(self, key: str) -> Path | None:
        """A file of the subject; of "nets.py:Net" the file."""
        value = self.options.get(key)
        if not value:
            return None
        return Path(value.rpartition(":")[0] if key in ("model", "jax") else value)

    @property
    def torch_file(self) -> Path | None:
        return self.path("script") or self.path("model")

    @property
    def jax_file(self) -> Path | None:
        """None where the model is rewritten afresh."""
        script = self.path("script")
        beside = script.with_name(f"{script.stem}_jax.py") if script else None
        return self.path("rewritten") or self.path("jax") or beside

    @property
    def files(self) -> list[Path]:
        """Every file that the figures depend on and that is there."""
        named = [self.path(key) for key in _FILES]
        jax_file = self.jax_file
        beside = [jax_file, jax_file.with_name("weights.json")] if jax_file else []
        return [path for path in dict.fromkeys([*named, *beside]) if path is not None and path.is_file()]


@dataclass(frozen=True)
class GateConfig:
    subjects: tuple[GateSubject, ...]
    budgets: tuple[Budget, ...] = ()
    ratchet: Path | None = None
    timeout: float = 3600.0  # seconds, for each process
    path: str = ""


def find(path: Path | None) -> Path:
    """The file named, or the parity.toml or pyproject.toml here. Raises ParityError."""
    for candidate in [path] if path else [Path("parity.toml"), Path("pyproject.toml")]:
        if candidate.is_file():
            return candidate
    _refuse(f"{path or 'parity.toml'}: no such file; the gate reads it, or [tool.migrate.gate] of a pyproject.toml")


def read(path: Path) -> GateConfig:
    """Raises ParityError PAR211 for whatever cannot be meant: an unknown key is never skipped."""
    try:
        whole = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        _refuse(f"{path}: {error}")
    data = whole.get("tool", {}).get("migrate", {}).get("gate", {}) if path.name == "pyproject.toml" else whole
    _known(data, _TOP, str(path))
    listed = enumerate(data.get("subject", []), start=1)
    subjects = tuple(subject(one, f"{path}: subject {i}", path.parent) for i, one in listed)
    if not subjects:
        _refuse(f"{path}: names no [[subject]]; an empty gate is not a pass")
    names = [one.name for one in subjects]
    for name in names:
        if names.count(name) > 1:
            _refuse(f"{path}: two subjects are called {name!r}")
    budgets = tuple(budget(one, f"{path}: budget {i}") for i, one in enumerate(data.get("budget", []), start=1))
    ratchet = path.parent / data["ratchet"] if "ratchet" in data else None
    return GateConfig(subjects, budgets, ratchet, float(data.get("timeout", GateConfig.timeout)), str(path))


def _refuse(message: str) -> NoReturn:
    raise ParityError("PAR211", message)


def _known(data: Any, keys: dict[str, Any], where: str) -> None:
    if not isinstance(data, dict):
        _refuse(f"{where}: must be a table")
    for key, value in data.items():
        if key not in keys:
            _refuse(f"{where}: unknown key {key!r}; known are {', '.join(keys)}")
        if not isinstance(value, keys[key]) or (isinstance(value, bool) and keys[key] is not bool):
            _refuse(f"{where}: {key} has the wrong type")


def subject(data: Any, where: str, folder: Path) -> GateSubject:
    """One [[subject]]; its paths are relative to `folder`. Raises ParityError."""
    _known(data, _SUBJECT, where)
    if ("script" in data) == ("model" in data):
        _refuse(f"{where}: names either a script or a model")
    kind, foreign = ("script", _OF_MODELS) if "script" in data else ("model", _OF_SCRIPTS)
    for key in sorted(foreign & set(data)):
        _refuse(f"{where}: {key} means nothing for a {kind}")
    options = {key: str(folder / value) if key in _FILES else value for key, value in data.items()}
    modes = tuple(options.pop("modes", ("jit",)))
    for mode in modes:
        if mode not in MODES:
            _refuse(f"{where}: unknown mode {mode!r}; known are {', '.join(MODES)}")
    if not modes:
        _refuse(f"{where}: modes is empty")
    return GateSubject(options.pop("name", data.get("script") or data.get("model")), options, modes)


def budget(data: Any, where: str) -> Budget:
    """One [[budget]]. Raises ParityError."""
    _known(data, _BUDGET, where)
    if ("ratio" in data) == ("absolute" in data):
        _refuse(f"{where}: give either a ratio to the oracle or an absolute RMS difference")
    for key in ("owner", "reason"):
        if not data.get(key):
            _refuse(f"{where}: a budget that departs from the default needs its {key}")
    return Budget(**data)
