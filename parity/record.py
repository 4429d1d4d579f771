"""What a run leaves behind: the recording of one side, its configuration, and the files both travel in.

A recording is a folder: `recording.json` and one `.npz`. Neither torch nor jax is needed to read it.
Tensor keys are "Model|name": the name is torch's dotted one on the torch side and the Flax path on the other.
"""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

# For each model: how many steps' gradients are kept, and how many steps' weights (the second is "after one step").
# Counted apart, since two models may take turns; and looked for in the first steps only.
GRADIENT_STEPS = 2
STATE_STEPS = 3
DETAILED_STEPS = 12

# How accelerators round the float32 operands of their products: TPUs by default, GPUs from Ampere on where TF32 is on.
MANTISSA_BITS = {"bfloat16": 7, "tf32": 10}

Tensors = dict[str, np.ndarray]


class Stop(BaseException):
    """Raised inside a script once it has done the steps asked for; a BaseException, so that no script catches it."""


@dataclass(frozen=True)
class RunConfig:
    """What a child process is told. Paths are absolute; `script` lies in a copy made for this run."""

    script: str
    cwd: str
    out: str
    argv: tuple[str, ...] = ()
    steps: int = 20
    prelude: str | None = None
    root: str | None = None  # the top folder of the copied project, from which its packages are imported
    threads: int = 1
    seed: int = 0
    # torch only: move each initial weight by one unit in the last place, up or down, by this seed
    perturb: int | None = None
    # torch only: 1 or -1, take the slopes of piecewise functions at points nearby: see `kinks_torch`
    kinks: int = 0
    # compute in this type: "float32" is what the script says; "float64" and "bfloat16" take its place
    dtype: str = "float32"
    # round the operands of float32 products to this, of MANTISSA_BITS, as an accelerator does; "": as the CPU has them
    products: str = ""
    # one call of one module, "Net|block.0|1" (the model, the path, which call of it): its inputs and its operations are
    # recorded; on the JAX side it is given the inputs that torch recorded under `probe_inputs`
    probe: str | None = None
    probe_inputs: str | None = None
    # record more than losses
    taps: bool = True
    # jax only: evaluate the first step on numbers of high precision, "mpmath" or "flint", and end there
    oracle: str | None = None
    # backward passes for gradients by inputs, "train.py:44": they are no steps
    by_inputs: tuple[str, ...] = ()
    # jax only
    manifest: str | None = None
    torch_recording: str | None = None

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(path: str | Path) -> RunConfig:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        lists = {name: tuple(data[name]) for name in ("argv", "by_inputs")}
        return RunConfig(**{**data, **lists})


@dataclass
class Recording:
    """What one run did. Steps are counted from 1: a step is one loss that was differentiated."""

    losses: list[float] = field(default_factory=list)
    # weights of each model before its first use, in the order of construction (torch side)
    initial: Tensors = field(default_factory=dict)
    # outputs of modules in their first differentiated forward pass, in the order of execution
    outputs: Tensors = field(default_factory=dict)
    # of the probed call: its inputs by position, and the results of its operations in order, "name|where|number"
    inputs: Tensors = field(default_factory=dict)
    operations: Tensors = field(default_factory=dict)
    gradients: dict[int, Tensors] = field(default_factory=dict)
    # weights that ask for no gradient, by the step: "Net|fc.bias" (torch side)
    frozen: dict[str, list[str]] = field(default_factory=dict)
    # weights and buffers that the forward pass of step k started from
    states: dict[int, Tensors] = field(default_factory=dict)
    # one number for each step, whole training long: "gradient|Net", "distance|Net", "distance|Net|fc1.weight"
    curves: dict[str, dict[str, float]] = field(default_factory=dict)
    models: list[str] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)  # model -> the Python module of its class (torch side)
    copies: list[str] = field(default_factory=list)  # those among them that were copied of others (torch side)
    # rewritten class -> the torch model whose weights its first model was given (the rewritten side)
    matched: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    error_kind: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    def note_curve(self, name: str, step: int, value: float) -> None:
        """The first value of a step stays: what its forward pass started from."""
        self.curves.setdefault(name, {}).setdefault(str(step), value)

    def frozen_in(self, model: str, step: int) -> set[str]:
        """The weights of a model that ask for no gradient in a step."""
        names = (name.split("|", 1) for name in self.frozen.get(str(step), ()))
        return {key for owner, key in names if owner == model}

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        names: list[tuple[str, int, str]] = []
        arrays: list[np.ndarray] = []
        for group, step, tensors in self._groups():
            for name, value in tensors.items():
                names.append((group, step, name))
                arrays.append(value)
        np.savez(folder / "tensors.npz", *arrays)
        meta = {key: getattr(self, key) for key in _PLAIN}
        meta["losses"] = [float(loss).hex() for loss in self.losses]
        (folder / "recording.json").write_text(json.dumps({**meta, "tensors": names}), encoding="utf-8")

    def _groups(self) -> list[tuple[str, int, Tensors]]:
        return [
            ("initial", 0, self.initial),
            ("outputs", 0, self.outputs),
            ("inputs", 0, self.inputs),
            ("operations", 0, self.operations),
            *(("gradients", step, tensors) for step, tensors in self.gradients.items()),
            *(("states", step, tensors) for step, tensors in self.states.items()),
        ]

    @staticmethod
    def load(folder: Path) -> Recording:
        meta = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
        recording = Recording(**{key: meta[key] for key in _PLAIN})
        recording.losses = [float.fromhex(loss) for loss in meta["losses"]]
        with np.load(folder / "tensors.npz", allow_pickle=False) as arrays:
            for i, (group, step, name) in enumerate(meta["tensors"]):
                target: dict[Any, Any] = getattr(recording, group)
                (target.setdefault(step, {}) if step else target)[name] = arrays[f"arr_{i}"]
        return recording


_PLAIN = ("curves", "frozen", "models", "modules", "copies", "matched", "notes", "error", "error_kind", "versions")


def wanted(kept: dict[int, Tensors], model: str, step: int, limit: int) -> bool:
    """Whether a model's tensors are to be kept for a step: the first of that step, and fewer than `limit` before it."""
    steps = [s for s, tensors in kept.items() if any(key.startswith(model + "|") for key in tensors)]
    return step <= DETAILED_STEPS and step not in steps and len(steps) < limit


def tensors_of(recording_tensors: Tensors, model: str) -> Tensors:
    """The tensors of one model, without the model in their names."""
    prefix = model + "|"
    return {name[len(prefix) :]: value for name, value in recording_tensors.items() if name.startswith(prefix)}


def traceback_tail(error: BaseException, script: str, lines: int = 25) -> str:
    """The end of a traceback, from the first frame in the user's script on: the frames that ran it are ours."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((i for i, frame in enumerate(frames) if frame.filename == script), 0)
    kept = traceback.format_list(frames[first:]) + traceback.format_exception_only(type(error), error)
    return "\n".join("".join(kept).rstrip().splitlines()[-lines:])
