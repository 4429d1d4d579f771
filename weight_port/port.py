"""Port a checkpoint: what ``migrate port-weights`` does."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from migrate import manifest as manifests
from weight_port import store
from weight_port.apply import check_ties, run_step
from weight_port.checkpoint import open_checkpoint
from weight_port.dtypes import DTYPES, is_float
from weight_port.errors import PortError, fail
from weight_port.plan import Plan, choose_model, plan_port, plan_unport
from weight_port.regions import TensorInfo
from weight_port.report import PortReport

__all__ = ["PortError", "PortReport", "port_weights"]


@dataclass(frozen=True)
class _Source:
    """Tensors by name, a function that reads one, and one that lets its memory go."""

    tensors: Mapping[str, TensorInfo]
    read: Callable[[str], np.ndarray]
    release: Callable[[str], None]


def port_weights(
    source: str | Path,
    manifest: str | Path,
    out: str | Path | None,
    *,
    model: str | None = None,
    key: str | None = None,
    reverse: bool = False,
    dtype: str | None = None,
    dry_run: bool = False,
) -> PortReport:
    """Write the weights of the torch checkpoint ``source`` as Flax weights to ``out``, or the other way if ``reverse``.

    The endings of the names tell the formats. Bits are kept unless ``dtype`` ("float32", "bfloat16", ...) asks for
    another type of the floating-point weights. model: the class, where the manifest describes several. key: which
    state dict, where the checkpoint holds several. dry_run: check everything but write nothing; ``out`` may be None.

    Tensors pass one at a time, whatever the checkpoint's size. Raises PortError; nothing is written then.
    """
    began = time.perf_counter()
    source, target = Path(source), None if out is None else Path(out)
    wanted = _dtype(dtype)
    if target is None and not dry_run:
        fail("WPT009", "no output was named", "Give one, or check only by --dry-run.")
    if target is not None:
        store.check_output(target, store.TORCH_FORMATS if reverse else store.FLAX_FORMATS)
        _keep_inputs(target, (source, Path(manifest)))
    weights = _read_manifest(Path(manifest))
    chosen = choose_model(weights.models, model)
    if reverse:
        tensors, read = store.read(source)
        data, notes = _Source(tensors, read, lambda name: None), _notes_on_unused(chosen)
        plan = plan_unport(chosen, tensors, dtype=wanted)
    else:
        names = [leaf.torch for leaf in chosen.leaves] + [entry.torch for entry in chosen.unused]
        checkpoint = open_checkpoint(source, key=key, expected=names)
        data, notes = _Source(checkpoint, checkpoint.read, checkpoint.release), checkpoint.notes()
        plan = plan_port(chosen, checkpoint, opaque=checkpoint.opaque, dtype=wanted)
        check_ties(plan, checkpoint.read)
        notes += _notes_on_width(plan)
    if target is not None and not dry_run:
        metadata = {
            "format": "pt" if reverse else "flax",
            "migrate_manifest_sha256": hashlib.sha256(manifests.dumps(weights).encode()).hexdigest(),
            "migrate_model": chosen.name,
            "migrate_source": source.name,
        }
        outputs = {step.target: step.after for step in plan.steps}
        outputs |= {tied: outputs[same] for tied, same in plan.ties} if reverse else {}
        store.write(target, outputs, _reader(plan, data, repeat=reverse), metadata)
    written = None if dry_run else target
    return PortReport.of(plan, source, written, reverse=reverse, notes=notes, seconds=time.perf_counter() - began)


def _reader(plan: Plan, source: _Source, *, repeat: bool) -> Callable[[str], np.ndarray]:
    """A function that gives each output when asked, and lets the one before it go. Tied outputs are one array."""
    steps = {step.target: step for step in plan.steps}
    same_as = dict(plan.ties) if repeat else {}
    shared: dict[str, np.ndarray] = {}
    last: list[str] = []

    def read(name: str) -> np.ndarray:
        while last:
            source.release(last.pop())
        name = same_as.get(name, name)
        if name in shared:
            return shared[name]
        last.append(steps[name].source)
        array = run_step(steps[name], source.read)
        if name in same_as.values():
            shared[name] = array
        return array

    return read


def _read_manifest(path: Path) -> manifests.Manifest:
    try:
        return manifests.read(path)
    except manifests.ManifestError as error:
        fail("WPT007", str(error))
    except OSError as error:
        fail("WPT001", f"cannot open {path}: {error.strerror or error}")


def _dtype(name: str | None) -> np.dtype | None:
    floats = [known for known, dtype in DTYPES.items() if is_float(dtype)]
    if name is not None and name not in floats:
        fail("WPT009", f"{name!r} is not a floating-point type", f"Known are {', '.join(floats)}.")
    return None if name is None else DTYPES[name]


def _keep_inputs(out: Path, inputs: tuple[Path, ...]) -> None:
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            fail("WPT009", f"the output {out} is an input", "An input is never overwritten; choose another name.")


def _notes_on_unused(model: manifests.ModelWeights) -> tuple[str, ...]:
    names = [entry.torch for entry in model.unused]
    if not names:
        return ()
    return (f"torch may also want {', '.join(names)}, which Flax does not hold: load_state_dict(..., strict=False)",)


def _notes_on_width(plan: Plan) -> tuple[str, ...]:
    wide = sorted({step.after.dtype.name for step in plan.steps if step.after.dtype.name in _WIDE})
    if not wide:
        return ()
    return (f"{' and '.join(wide)} are kept in the file; JAX narrows them on loading unless jax_enable_x64 is set",)


_WIDE = ("float64", "int64", "uint64", "complex128")
