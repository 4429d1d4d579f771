"""What becomes of each sample: it agrees, it is refused by a code, or it differs."""

from __future__ import annotations

import ast
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
    """How one sample ends."""

    AGREES = "agrees"
    REFUSED = "refused"
    RAISES = "raises"  # JAX, as it traces
    DIFFERS = "differs"
    OUT = "out"  # torch itself does not take the text


@dataclass(frozen=True)
class Outcome:
    """How one sample ends where its source shows what its tensors are. `unshown`: the error that JAX raises where
    nothing shows it."""

    sample: Sample
    verdict: Verdict
    why: str = ""
    unshown: str = ""


def outcomes(api: str, found: Sequence[Sample], *, values: bool = True) -> list[Outcome]:
    """What becomes of the samples of one API, written twice: called with tensors that the source makes, and with what
    it shows nothing of, where JAX may raise an error but nothing may differ.

    values: else only shapes and types are compared, as of random draws.
    """
    unshown = _Written(api, found, shown=False)
    shown = _Written(api, found, shown=True)
    without = [unshown.outcome(sample, values) for sample in found]
    return [_judged(_shown(shown, unshown, one, values), one) for one in without]


def _shown(shown: _Written, unshown: _Written, known: Outcome, values: bool) -> Outcome:
    """How a sample ends where its tensors are shown: as `known` where that makes no difference to the output."""
    alike = shown.text(known.sample) == unshown.text(known.sample)
    return known if alike else shown.outcome(known.sample, values)


def _judged(shown: Outcome, unshown: Outcome) -> Outcome:
    if unshown.verdict is Verdict.DIFFERS:
        return unshown
    raises = unshown.verdict is Verdict.RAISES and shown.verdict in (Verdict.AGREES, Verdict.REFUSED)
    return replace(shown, unshown=unshown.why) if raises else shown


class _Written:
    """The samples of an API in one text, rewritten. shown: the calls are given tensors that the text makes, so that
    it shows their types and axes."""

    def __init__(self, api: str, found: Sequence[Sample], *, shown: bool) -> None:
        self.api = api
        self.method = "called" if shown else "forward"
        texts = {id(sample): (sample.text, tuple(sample.names), _made(sample) if shown else "") for sample in found}
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts.values()))}
        self.numbers = {sample: numbers[text] for sample, text in texts.items()}
        source, lines = HEADER, {}
        for (text, names, made), number in numbers.items():
            source += f"\n\nclass M{number}(nn.Module):\n"
            if shown:
                source += f"    def forward(self):\n        return self.called({made})\n\n"
            source += f"    def {self.method}(self{''.join(f', {name}' for name in names)}):\n        return {text}\n"
            lines[source.count("\n")] = number
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = rewritten.fresh(source)
            self.refused = {
                lines[d.line]: f"{d.code} {d.message}" for d in made.report.diagnostics if d.line in lines
            }  # nothing else may be found, or the whole text is not what was meant
            self.rest = [str(d) for d in made.report.diagnostics if d.line not in lines and d.code != "MIG101"]
            self.ours, self.theirs = rewritten.executed(made.text), rewritten.executed(source)
        classes = [node for node in ast.parse(made.text).body if isinstance(node, ast.ClassDef)]
        self.texts = {node.name: _body(node) for node in classes}

    def text(self, sample: Sample) -> str:
        """What a sample has become."""
        return self.texts[f"M{self.numbers[id(sample)]}"]

    def outcome(self, sample: Sample, values: bool) -> Outcome:
        """How a sample ends as it is written here."""
        if self.rest:
            return Outcome(sample, Verdict.DIFFERS, self.rest[0])
        number = self.numbers[id(sample)]
        with warnings.catch_warnings(), floats_are(_precision(sample)):
            warnings.simplefilter("ignore")
            written = getattr(self.theirs[f"M{number}"](), self.method)
            module = self.ours[f"M{number}"]()
            method = "__call__" if self.method == "forward" else self.method
            return _one(self.api, sample, written, module, method, self.refused.get(number), values)


def _body(made: ast.ClassDef) -> str:
    """The statements of the one method, or of the last, of a class."""
    method = made.body[-1]
    assert isinstance(method, ast.FunctionDef)
    return "\n".join(map(ast.unparse, method.body))


def _made(sample: Sample) -> str:
    """Tensors like those of a sample, as a script makes them."""
    return ", ".join(_zeros(tensor) for tensor in sample.tensors.values())


def _zeros(tensor: torch.Tensor) -> str:
    if tensor.is_complex():
        parts = f"torch.zeros({tuple(tensor.shape)})"
        return f"torch.complex({parts}, {parts})"
    return f"torch.zeros({tuple(tensor.shape)}, dtype={tensor.dtype})"


def _one(api: str, sample: Sample, written: Any, module: Any, method: Any, refused: str | None, exact: bool) -> Outcome:
    wrt = sample.differentiable()
    tensors = {name: tensor.detach().clone() for name, tensor in sample.tensors.items()}
    for name in wrt:
        tensors[name].requires_grad_()
    try:
        output = written(*tensors.values())
        gradients = torch_gradients(output, [tensors[name] for name in wrt])
    except Exception as error:
        return Outcome(sample, Verdict.OUT, _short(error))
    if refused is not None:
        return Outcome(sample, Verdict.REFUSED, refused)
    values = {name: _numpy(tensor) for name, tensor in sample.tensors.items()}
    if hasattr(module, "training"):
        module = module.clone(training=True)
    options = {"rngs": {"sample": jax.random.key(0)}, "method": method}
    try:
        run = jax.jit(jax_function(module, sample.names, wrt, **options))
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
            if len(taken) == 2 and np.array_equal(taken[0], taken[1]):
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
