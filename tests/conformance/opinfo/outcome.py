"""What becomes of each sample: it agrees, it is refused by a code, or it differs."""

from __future__ import annotations

import enum
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from tests.conformance import rewritten
from tests.conformance.compare import differences, flat
from tests.conformance.opinfo.samples import Sample
from tests.conformance.precision import floats_are
from tests.conformance.run_example import jax_function, torch_gradients

HEADER = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


class Verdict(enum.StrEnum):
    """How one sample ends: `raises` is an error of JAX at run time, `out` one of torch."""

    AGREES = "agrees"
    REFUSED = "refused"
    RAISES = "raises"
    DIFFERS = "differs"
    OUT = "out"  # torch itself does not take the text


@dataclass(frozen=True)
class Outcome:
    sample: Sample
    verdict: Verdict
    why: str = ""


def outcomes(found: Sequence[Sample], *, values: bool = True) -> list[Outcome]:
    """What becomes of the samples of one API, which are rewritten together.

    values: else only shapes and types are compared, as of random draws.
    """
    texts = list(dict.fromkeys((sample.text, tuple(sample.names)) for sample in found))
    source, lines = HEADER, {}
    for number, (text, names) in enumerate(texts):
        source += f"\n\nclass M{number}(nn.Module):\n    def forward(self{''.join(f', {n}' for n in names)}):\n"
        lines[source.count("\n") + 1] = number
        source += f"        return {text}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = rewritten.fresh(source)
        refused = {
            lines[d.line]: f"{d.code} {d.message}" for d in made.report.diagnostics if d.line in lines
        }  # nothing else may be found, or the whole text is not what was meant
        rest = [str(d) for d in made.report.diagnostics if d.line not in lines and d.code != "MIG101"]
        ours = rewritten.executed(made.text)
        theirs = rewritten.executed(source)
        places = {key: number for number, key in enumerate(texts)}
        results = []
        for sample in found:
            number = places[sample.text, tuple(sample.names)]
            if rest:
                results.append(Outcome(sample, Verdict.DIFFERS, rest[0]))
            else:
                with floats_are(_precision(sample)):
                    results.append(_one(sample, theirs[f"M{number}"], ours[f"M{number}"], refused.get(number), values))
        return results


def _one(sample: Sample, written: Any, module: Any, refused: str | None, exact: bool) -> Outcome:
    wrt = sample.differentiable()
    tensors = {name: tensor.detach().clone() for name, tensor in sample.tensors.items()}
    for name in wrt:
        tensors[name].requires_grad_()
    try:
        output = written()(*tensors.values())
        gradients = torch_gradients(output, [tensors[name] for name in wrt])
    except Exception as error:
        return Outcome(sample, Verdict.OUT, _short(error))
    if refused is not None:
        return Outcome(sample, Verdict.REFUSED, refused)
    values = {name: _numpy(tensor) for name, tensor in sample.tensors.items()}
    instance = module()
    if hasattr(instance, "training"):
        instance = instance.clone(training=True)
    rngs = {"rngs": {"sample": jax.random.key(0)}}
    try:
        run = jax.jit(jax_function(instance, sample.names, wrt, **rngs))
        got, got_gradients = run({name: jnp.asarray(value) for name, value in values.items()})
        got = jax.tree.map(np.asarray, got)
    except Exception as error:
        return Outcome(sample, Verdict.RAISES, _short(error))
    if not exact:
        output, got = _emptied(output), _emptied(got)
        gradients, got_gradients = [], []
    sizes = [float(np.max(np.abs(v[np.isfinite(v)]), initial=0)) for v in values.values() if v.dtype.kind == "f"]
    found = differences(output, got, max([1.0, *sizes]))
    found = found or differences(gradients, got_gradients, max([1.0, *sizes]))
    if not found:
        return Outcome(sample, Verdict.AGREES)
    return Outcome(sample, Verdict.DIFFERS, found[0].what.replace("\n", " ")[:300])


def _precision(sample: Sample) -> str:
    """64 bits where something in the sample has them."""
    wide = any(tensor.dtype in (torch.float64, torch.complex128) for tensor in sample.tensors.values())
    return "float64" if wide or re.search(r"float64|double\(", sample.text) else "float32"


def _emptied(output: Any) -> Any:
    """Zeros of the same shapes and types."""
    return [np.zeros_like(array) for array in flat(output)]


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().resolve_conj().resolve_neg().numpy().copy()


def _short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
