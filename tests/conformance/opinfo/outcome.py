"""What becomes of each sample: it agrees, it is refused by a code, or it differs."""

from __future__ import annotations

import enum
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from tests.conformance import rewritten
from tests.conformance.compare import COARSE, differences, flat
from tests.conformance.opinfo.samples import Sample
from tests.conformance.precision import floats_are
from tests.conformance.run_example import jax_function, torch_gradients

HEADER = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


class Verdict(enum.StrEnum):
    """How one sample ends. `LOUD` and `RAISES` are errors of JAX as it traces: a loud one is of a tensor of which the
    source tells neither type nor axes, and where it tells them, a code declines the call or it agrees."""

    AGREES = "agrees"
    REFUSED = "refused"
    LOUD = "loud"
    RAISES = "raises"
    DIFFERS = "differs"
    OUT = "out"  # torch itself does not take the text


@dataclass(frozen=True)
class Outcome:
    sample: Sample
    verdict: Verdict
    why: str = ""


def outcomes(api: str, found: Sequence[Sample], *, values: bool = True) -> list[Outcome]:
    """What becomes of the samples of one API.

    values: else only shapes and types are compared, as of random draws.
    """
    first = _rewritten(api, found, values)
    raising = [one.sample for one in first if one.verdict is Verdict.RAISES]
    told = {id(one.sample): one for one in _rewritten(api, raising, values, told=True)} if raising else {}
    return [_judged(one, told.get(id(one.sample))) for one in first]


def _judged(one: Outcome, told: Outcome | None) -> Outcome:
    """An error of JAX is loud where the same call is declined, or agrees, once the source tells type and axes."""
    settled = told is not None and told.verdict in (Verdict.AGREES, Verdict.REFUSED)
    return replace(one, verdict=Verdict.LOUD) if settled else one


def _rewritten(api: str, found: Sequence[Sample], values: bool, told: bool = False) -> list[Outcome]:
    """The samples, rewritten together and run. told: the source says the type and the axes of each tensor first."""
    texts = {id(sample): (_telling(sample) if told else "", sample.text, tuple(sample.names)) for sample in found}
    source, lines, places = HEADER, {}, {}
    for number, (telling, text, names) in enumerate(dict.fromkeys(texts.values())):
        places[telling, text, names] = number
        source += f"\n\nclass M{number}(nn.Module):\n    def forward(self{''.join(f', {n}' for n in names)}):\n"
        source += telling
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
        results = []
        for sample in found:
            number = places[texts[id(sample)]]
            if rest:
                results.append(Outcome(sample, Verdict.DIFFERS, rest[0]))
            else:
                with floats_are(_precision(sample)):
                    one = _one(api, sample, theirs[f"M{number}"], ours[f"M{number}"], refused.get(number), values)
                    results.append(one)
        return results


_CASTS = {torch.float64: "double", torch.int64: "long", torch.uint8: "byte", torch.bool: "bool"}


def _telling(sample: Sample) -> str:
    """Statements from which a source tells what type the tensors of a sample have, and which axes."""
    known = {name: tensor for name, tensor in sample.tensors.items() if tensor.dtype in _CASTS}
    return "".join(f"        {n} = {n}.{_CASTS[t.dtype]}().reshape({tuple(t.shape)})\n" for n, t in known.items())


def _one(api: str, sample: Sample, written: Any, module: Any, refused: str | None, exact: bool) -> Outcome:
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
    if api in ANY_OF_EQUAL and _places_differ_alone(sample, output, got):
        got = [*flat(got)[:-1], flat(output)[-1]]
    factor = COARSE.get(api, 1.0)
    found = differences(output, got, max([1.0, *sizes]), factor)
    found = found or differences(gradients, got_gradients, max([1.0, *sizes]), factor)
    if not found:
        return Outcome(sample, Verdict.AGREES)
    return Outcome(sample, Verdict.DIFFERS, found[0].what.replace("\n", " ")[:300])


# Results with places of values, which may be those of any of several equal ones.
ANY_OF_EQUAL = frozenset(["torch.argsort", "torch.sort", "torch.topk", "torch.kthvalue"])


def _places_differ_alone(sample: Sample, output: Any, got: Any) -> bool:
    """Whether two results are the same but for the places of values, at which the same values stand along an axis."""
    (*wanted, theirs), (*values, ours) = flat(output), flat(got)
    x = _numpy(next(iter(sample.tensors.values())))
    if theirs.shape != ours.shape or not x.ndim or differences(wanted, values):
        return False
    for axis in range(x.ndim):
        whole = [p if p.ndim == x.ndim else np.expand_dims(p, axis) for p in (theirs, ours)]
        if all(n == m for i, (n, m) in enumerate(zip(x.shape, whole[0].shape, strict=True)) if i != axis):
            taken = [np.take_along_axis(x, p, axis) for p in whole if p.max(initial=0) < x.shape[axis]]
            if len(taken) == 2 and np.array_equal(*taken):
                return True
    return False


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
