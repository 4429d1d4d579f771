"""Port a checkpoint: what ``migrate port-weights`` does."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from migrate import manifest as manifests
from migrate.manifest import ModelWeights, Unused
from weight_port import optimizer_files, store
from weight_port.apply import check_copies, check_ties, stream_step
from weight_port.checkpoint import Checkpoint, open_checkpoint
from weight_port.dtypes import DTYPES, DtypeRule, is_float
from weight_port.errors import PortError, Problem, fail, raise_all
from weight_port.orbax_files import Mesh
from weight_port.outputs import Outputs, Window
from weight_port.plan import Plan
from weight_port.planning import choose_model, plan_port, plan_unport
from weight_port.report import PortReport
from weight_port.told_ties import as_kept, as_tied
from weight_port.verification import Verification
from weight_port.verification import verify as verify_steps
from weight_port.views import Scratch

__all__ = ["Planned", "PortError", "PortReport", "plan_files", "port_weights"]


@dataclass(frozen=True)
class Planned:
    """A port that was checked and not yet carried out. ``read`` gives a source tensor, ``release`` lets it go.

    ``empty``: maps of the output without anything in them. ``beside``: what stands beside the state dict, going back.
    """

    plan: Plan
    model: ModelWeights
    read: Callable[[str], np.ndarray]
    release: Callable[[str], None]
    notes: tuple[str, ...]
    reverse: bool
    empty: tuple[str, ...] = ()
    beside: Mapping[str, Any] = field(default_factory=dict)

    def outputs(self, progress: Callable[[int], None] = lambda nbytes: None) -> Outputs:
        """What is to be written; ``progress`` is told of every part that was."""
        steps = {step.target: step for step in self.plan.steps}
        infos = {step.target: step.after for step in self.plan.steps}
        same_as = dict(self.plan.ties) if self.reverse else {}
        infos |= {tied: infos[same] for tied, same in same_as.items()}
        scratch = Scratch()

        def stream(name: str, window: Window | None) -> Iterator[np.ndarray]:
            step = steps[same_as.get(name, name)]
            for part in stream_step(step, self.read, window, scratch):
                yield part
                progress(part.nbytes)
            for source in step.sources:
                if source.key is not None:
                    self.release(source.key)

        return Outputs(infos, stream, same_as, self.empty)


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
    their elements. optimizer: what to do with its state,
    leaves "opt_state/..." beside the weights. mesh: a file that says how devices share the leaves.
    resume: keep what is finished when interrupted, and go on from it. dry_run: check everything but write nothing;
    ``out`` may be None. verify: read both sides again and compare every leaf; with ``dry_run`` that of an ``out`` that
    is there already. progress: called with the bytes written and the bytes in all.

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
    if verify and target is None:
        fail("WPT009", "there is nothing to compare with", "Name the output that is to be verified.")
    weights = manifest if isinstance(manifest, manifests.Manifest) else read_manifest(Path(manifest))
    planned = plan_files(
        source, choose_model(weights.models, model), key=key, reverse=reverse, dtype=rule,
        allow_unused=allow_unused, allow_missing=allow_missing, allow_expanded=allow_expanded, optimizer=optimizer,
    )  # fmt: skip
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


def plan_files(
    source: Path,
    model: ModelWeights,
    *,
    key: str | None = None,
    reverse: bool = False,
    dtype: DtypeRule | None = None,
    allow_unused: Sequence[str] = (),
    allow_missing: Sequence[str] = (),
    allow_expanded: bool = False,
    optimizer: optimizer_files.OptimizerOptions | None = None,
) -> Planned:
    """Open the source and plan its port. Raises PortError."""
    leaves = [replace(leaf, optional=leaf.optional or _any(leaf.flax, allow_missing)) for leaf in model.leaves]
    model = replace(model, leaves=tuple(leaves))
    if reverse:
        return _plan_back(source, model, dtype, allow_unused, optimizer)
    names = [leaf.torch for leaf in model.leaves] + [entry.torch for entry in model.unused]
    checkpoint = open_checkpoint(source, key=key, expected=names, allow_expanded=allow_expanded)
    unused = tuple(Unused(name, "allowed by --allow-unused") for name in checkpoint if _any(name, allow_unused))
    model = as_tied(model, checkpoint, checkpoint.read)
    plan = plan_port(replace(model, unused=model.unused + unused), checkpoint, opaque=checkpoint.opaque, dtype=dtype)
    check_ties(plan, checkpoint.read)
    notes = checkpoint.notes() + _notes_on_width(plan) + _notes_on_sums(plan)
    planned = Planned(plan, model, checkpoint.read, checkpoint.release, notes, False)
    return planned if optimizer is None else _with_state(planned, optimizer, checkpoint)


def _with_state(planned: Planned, asked: optimizer_files.OptimizerOptions, checkpoint: Checkpoint) -> Planned:
    """The plan with the optimizer's state."""
    state = optimizer_files.port_state(asked, checkpoint, planned.plan, planned.model)
    return replace(
        planned,
        plan=replace(planned.plan, steps=planned.plan.steps + state.steps),
        read=lambda key: state.sources[key] if key in state.sources else planned.read(key),
        release=lambda key: None if key in state.sources else planned.release(key),
        notes=planned.notes + state.notes,
        empty=state.empty,
    )


def _plan_back(
    source: Path,
    model: ModelWeights,
    dtype: DtypeRule | None,
    allow_unused: Sequence[str],
    optimizer: optimizer_files.OptimizerOptions | None,
) -> Planned:
    found, read = store.read(source)
    notes = _notes_on_unused(model)
    left = [name for name in found if _any(name, allow_unused)]
    state = [name for name in found if optimizer and name.startswith(f"{optimizer_files.STATE}/")]
    tensors = {name: info for name, info in found.items() if name not in {*left, *state}}
    model = as_kept(model, tensors)
    plan = plan_unport(model, tensors, dtype=dtype)
    check_copies(plan, read)
    if left:
        plan = replace(plan, dropped=tuple((name, "allowed by --allow-unused") for name in left))
    beside: dict[str, Any] = {}
    if optimizer is not None:
        arrays = {name: read(name) for name in state}
        beside["optimizer"] = optimizer_files.unport_state(optimizer, arrays, model, tensors)
    return Planned(plan, model, read, lambda name: None, notes, True, beside=beside)


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


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


def _notes_on_unused(model: ModelWeights) -> tuple[str, ...]:
    names = [entry.torch for entry in model.unused]
    if not names:
        return ()
    return (f"torch may also want {', '.join(names)}, which Flax does not hold: load_state_dict(..., strict=False)",)


def _notes_on_width(plan: Plan) -> tuple[str, ...]:
    wide = sorted({step.after.dtype.name for step in plan.steps if step.after.dtype.name in _WIDE})
    if not wide:
        return ()
    return (f"{' and '.join(wide)} are kept in the file; JAX narrows them on loading unless jax_enable_x64 is set",)


def _notes_on_sums(plan: Plan) -> tuple[str, ...]:
    summed = [step.target for step in plan.steps if step.added]
    if not summed:
        return ()
    return (f"{len(summed)} leaves are sums of two tensors ({summed[0]}); the way back gives the sum and a zero",)


_WIDE = ("float64", "int64", "uint64", "complex128")
