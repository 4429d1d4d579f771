"""Port a checkpoint: what ``migrate port-weights`` does."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from migrate import manifest as manifests
from weight_port import optimizer_files, store
from weight_port.as_saved import plan_as_saved
from weight_port.checkpoint import open_checkpoint
from weight_port.dtypes import DTYPES, DtypeRule, is_float
from weight_port.errors import PortError, Problem, fail, raise_all
from weight_port.orbax_files import Mesh
from weight_port.outputs import Outputs
from weight_port.planned import Planned, plan_files
from weight_port.planning import choose_model
from weight_port.report import PortReport
from weight_port.verification import Verification
from weight_port.verification import verify as verify_steps

__all__ = ["PortError", "PortReport", "port_weights"]


def port_weights(
    source: str | Path,
    manifest: str | Path | manifests.Manifest,
    out: str | Path | None,
    *,
    model: str | None = None,
    key: str | None = None,
    reverse: bool = False,
    dtype: str | None = None,
    dtype_rules: Sequence[tuple[str, str]] = (),
    allow_unused: Sequence[str] = (),
    allow_missing: Sequence[str] = (),
    allow_expanded: bool = False,
    optimizer: optimizer_files.OptimizerOptions | None = None,
    shard_size: int | None = None,
    as_saved: bool = False,
    mesh: str | Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PortReport:
    """Write the weights of the torch checkpoint ``source`` as Flax weights to ``out``, or the other way if ``reverse``.

    The endings of the names tell the formats; an ``out`` without an ending is a folder: Orbax, or safetensors where
    it goes back to torch or a ``shard_size`` (bytes) is given. Bits are kept unless ``dtype`` ("float32", "bfloat16",
    ...) asks for another type of the floating-point weights; ``dtype_rules`` are pairs of a pattern of output names
    and a type, the first that fits counts and "keep" keeps. model: the class, where the manifest describes several.
    key: which state dict, where the checkpoint holds several. allow_unused, allow_missing: patterns of keys that
    nothing needs to use and of leaves that nothing needs to fill. allow_expanded: read tensors of any size that repeat
    their elements. optimizer: what to do with its state, leaves "opt_state/..." beside the weights. as_saved: write all
    that the rewritten script would have saved, in its place; of ``optimizer`` only the names count then. mesh: a file
    that says how devices share the leaves. resume: keep what is finished when interrupted, and go on from it. dry_run:
    check everything but write nothing; ``out`` may be None. verify: read both sides again and compare every leaf; with
    ``dry_run`` that of an ``out`` that is there already. progress: called with the bytes written and the bytes in all.

    Tensors pass a few megabytes at a time, whatever the checkpoint's size. Raises PortError; nothing is written then.
    """
    began = time.perf_counter()
    source, target = Path(source), None if out is None else Path(out)
    rule = dtype_rule(dtype, dtype_rules)
    options = store.Options({}, shard_size, Mesh.read(Path(mesh)) if mesh else None, resume)
    if target is None and not dry_run:
        fail("WPT009", "no output was named", "Give one, or check only by --dry-run.")
    if target is not None:
        inputs = (source,) if isinstance(manifest, manifests.Manifest) else (source, Path(manifest))
        _keep_inputs(target, inputs)
        if not dry_run:
            store.check_output(target, reverse, options)
            if reverse and optimizer is not None and target.suffix not in store.BY_TORCH:
                fail("WPT009", f"{target} has no place for an optimizer", "torch keeps one in a .pt file.")
    if as_saved and target is not None and target.suffix != ".msgpack":
        fail("WPT009", f"rewritten scripts save checkpoints as msgpack, and {target} is not", "Call it FILE.msgpack.")
    if verify and target is None:
        fail("WPT009", "there is nothing to compare with", "Name the output that is to be verified.")
    weights = manifest if isinstance(manifest, manifests.Manifest) else read_manifest(Path(manifest))
    allowed: dict[str, Any] = {
        "dtype": rule, "allow_unused": allow_unused, "allow_missing": allow_missing, "allow_expanded": allow_expanded,
    }  # fmt: skip
    if as_saved:
        planned = plan_as_saved(source, weights, model=model, names=optimizer.names if optimizer else None, **allowed)
    else:
        chosen = choose_model(weights.models, model)
        planned = plan_files(source, chosen, key=key, reverse=reverse, optimizer=optimizer, **allowed)
    if target is not None and not dry_run:
        digest = hashlib.sha256(manifests.dumps(weights).encode()).hexdigest()
        metadata = {
            "format": "pt" if reverse else "flax",
            "migrate_manifest_sha256": digest,
            "migrate_model": planned.model.name,
            "migrate_source": source.name,
        }
        total, done = planned.outputs().nbytes, 0

        def advance(nbytes: int) -> None:
            nonlocal done
            done += nbytes
            if progress is not None:
                progress(done, total)

        outputs = planned.outputs(advance)
        mark = _fingerprint(source, f"{digest} {optimizer}", outputs, options)
        options = replace(options, metadata=metadata, fingerprint=mark, skipped=advance, beside=planned.beside)
        store.write(target, outputs, options, reverse=reverse)
    verified = _verify(planned, target) if verify and target is not None else None
    written, seconds = None if dry_run else target, time.perf_counter() - began
    report = PortReport.of(planned.plan, source, written, reverse=reverse, notes=planned.notes, seconds=seconds)
    return replace(report, verified=verified)


def _verify(planned: Planned, target: Path) -> Verification:
    """Compare the output with the source. Raises PortError WPT110 where they differ."""
    steps = {step.target: step for step in planned.plan.steps}
    if planned.reverse:
        found = open_checkpoint(target, expected=steps)
        steps |= {tied: steps[same] for tied, same in planned.plan.ties}
        verified = verify_steps(steps, planned.read, found, found.read)
    else:
        verified = verify_steps(steps, planned.read, *store.read(target))
    problems = [Problem("WPT110", f"{leaf.name}: {leaf.wrong}") for leaf in verified.differing]
    raise_all(problems, f"{target} is not what {planned.model.name}'s weights become")
    return verified


def read_manifest(path: Path) -> manifests.Manifest:
    """The manifest in a file. Raises PortError WPT001 or WPT007."""
    try:
        return manifests.read(path)
    except manifests.ManifestError as error:
        fail("WPT007", str(error))
    except OSError as error:
        fail("WPT001", f"cannot open {path}: {error.strerror or error}")


def dtype_rule(dtype: str | None, rules: Sequence[tuple[str, str]] = ()) -> DtypeRule:
    """The type that each output gets; None where it keeps its own. Raises PortError WPT009."""
    default = _dtype(dtype)
    chosen = [(pattern, None if name == "keep" else _dtype(name)) for pattern, name in rules]

    def rule(name: str) -> np.dtype | None:
        return next((wanted for pattern, wanted in chosen if fnmatchcase(name, pattern)), default)

    return rule


def _dtype(name: str | None) -> np.dtype | None:
    floats = [known for known, dtype in DTYPES.items() if is_float(dtype)]
    if name is not None and name not in floats:
        fail("WPT009", f"{name!r} is not a floating-point type", f"Known are {', '.join(floats)}.")
    return None if name is None else DTYPES[name]


def _fingerprint(source: Path, digest: str, outputs: Outputs, options: store.Options) -> str:
    """What must be the same for a later run to go on where an earlier one stopped."""
    files = sorted(source.rglob("*") if source.is_dir() else source.parent.glob(f"{source.name.split('.')[0]}*"))
    facts = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files if path.is_file()]
    shapes = [(name, info.shape, info.dtype.name) for name, info in outputs.infos.items()]
    return hashlib.sha256(repr((facts, digest, shapes, options.shard_size, options.mesh)).encode()).hexdigest()


def _keep_inputs(out: Path, inputs: tuple[Path, ...]) -> None:
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            fail("WPT009", f"the output {out} is an input", "An input is never overwritten; choose another name.")
