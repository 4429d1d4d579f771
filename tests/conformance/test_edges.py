"""Where functions bend, meet, vanish or overflow: ties, zeros, infinities, NaN, empty tensors. In float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import run_example
from tests.conformance.examples import Example, parse
from tests.conformance.rewritten import clean

TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
ZEROS = np.array([[0.0, -0.0, 1.0], [0.0, 0.0, 0.0]])
ODD = np.array([[np.nan, np.inf, -np.inf], [0.0, 1.0, -1.0]])
HALVES = np.array([[0.5, 1.5, -0.5], [2.5, -1.5, 3.5]])
NONE = np.zeros((0, 3))
MASKED = np.array([[-np.inf, 1.0, 2.0], [-np.inf, -np.inf, 0.5]])
ENDS = np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.25]])
CERTAIN = np.array([[0.0, 1e-30, 1e-20], [1e-9, 1e-5, 1.0]])  # at 1e-12 torch's limit is float32's
SATURATED = np.array([[-800.0, -60.0, -27.7], [27.7, 60.0, 800.0]])

# the expression, its one input
EQUAL: list[tuple[str, np.ndarray]] = [
    *[(f"x.{name}()", TIES) for name in ("max", "min")],
    *[(f"x.{name}(dim=1)", TIES) for name in ("amax", "amin", "argmax", "argmin")],
    ("torch.maximum(x, x.flip(1))", TIES),
    *[(f"torch.{name}(x)", HALVES) for name in ("round", "floor", "ceil", "trunc")],
    *[(f"torch.{name}(x)", ZEROS) for name in ("sign", "sqrt", "sigmoid", "relu", "square", "exp", "erf")],
    *[(f"F.{name}(x)", ZEROS) for name in ("relu6", "elu", "gelu", "silu", "hardswish", "softplus")],
    *[(f"torch.{name}(x)", ODD) for name in ("isnan", "isinf", "isfinite", "exp", "tanh", "floor", "sum")],
    *[(f"x.{name}()", ODD) for name in ("mean", "argmax")],
    ("torch.clamp(x, -0.5, 0.5)", ODD),
    ("torch.clamp(x, 0.0, 2.0)", TIES),
    ("x.clamp(min=0.0)", ZEROS),
    ("x.median()", ODD),
    ("x.median(dim=1)", ODD),
    ("x.pow(0)", ZEROS),
    ("torch.linalg.norm(x, 0.5, dim=1)", ZEROS),
    ("F.normalize(x, p=1, dim=1)", ZEROS),
    ("F.pairwise_distance(x, x.detach(), eps=0)", HALVES),
    ("torch.cdist(x, x.detach())", HALVES),
    ("torch.cdist(x, x.detach(), p=1)", HALVES),
    ("(x[x > 1] * 2).mean()", TIES),
    ("torch.heaviside(x.detach(), x.detach() + 1)", ODD),
    ("x.nan_to_num(nan=1.0, posinf=2.0, neginf=-2.0)", ODD),
    ("x > 0", ODD),
    ("torch.where(x > 0, x, 0.0)", ODD),
    *[(f"x.{name}()", NONE) for name in ("sum", "prod", "mean", "all", "any")],
    ("x.sum(dim=0)", NONE),
    ("torch.cat([x, x + 1])", NONE),
    ("F.softmax(x, dim=1)", MASKED),
    ("F.log_softmax(x, dim=1)", MASKED),
    ("torch.logsumexp(x, dim=1)", MASKED),
    ("x.prod(dim=1)", ZEROS),
    *[(call, ZEROS) for call in ("x.norm(dim=1)", "x.norm(p=1)", "torch.linalg.vector_norm(x)", "torch.abs(x)")],
    ("torch.dist(x, x.detach())", HALVES),
    ("F.l1_loss(x, x.detach())", HALVES),
    ("x.std(dim=1)", ZEROS),
    ("torch.atan2(x, x * 2)", ZEROS),
    ("torch.linalg.vector_norm(x, 3, dim=1)", ZEROS),
    ("x.cumsum(dim=1)", ODD),
    ("F.normalize(x, dim=1)", ZEROS),
    ("F.cosine_similarity(x, x + 1, dim=1)", ZEROS),
    ("torch.remainder(x, 2)", HALVES),
    ("torch.fmod(x, 2)", HALVES),
    ("x.pow(2)", ZEROS),
    ("x.pow(0.5)", ENDS),
    ("torch.sort(x, dim=1, stable=True)", TIES),
    ("x.max(dim=1)", TIES),
    ("x.min(1, keepdim=True)", TIES),
    ("x.std(dim=1)", HALVES),
    ("F.hardtanh(x)", ENDS),
    ("torch.special.i0(x)", ZEROS),
    ("x * torch.int32.itemsize", HALVES),
    ("(x * 2 - 1).clamp_(0, 2).abs_()", HALVES),
    ("F.binary_cross_entropy(x, x.detach(), reduction='none')", ENDS),
    ("F.binary_cross_entropy(x, (x.detach() > 0.5).to(x.dtype), reduction='none')", CERTAIN),
    ("F.binary_cross_entropy(torch.sigmoid(x), (x.detach() > 0).to(x.dtype))", SATURATED),
    ("F.binary_cross_entropy(torch.sigmoid(x), (x.detach() < 0).to(x.dtype))", SATURATED),
]

# expression, input, how the two differ; each is said in the docstring of the rule
DIFFERENT: list[tuple[str, np.ndarray, str]] = [
    ("F.leaky_relu(x)", ZEROS, "gradient"),
    ("x ** 0.0", ZEROS, "gradient"),
]


def example(text: str) -> Example:
    (made,) = parse(f">>> {text}  # x: f32[2, 3]\n?\n")
    return made


@pytest.mark.parametrize(("text", "x"), EQUAL, ids=[f"{text}-{n}" for n, (text, _) in enumerate(EQUAL)])
def test_edge(text: str, x: np.ndarray, float64: None) -> None:
    made = example(text)
    found = run_example.at(made, clean(made.source()).text, {"x": x}, eager=True)
    assert not found, "\n".join(difference.what for difference in found)


@pytest.mark.parametrize(("text", "x", "part"), DIFFERENT, ids=[text for text, _, _ in DIFFERENT])
def test_known_difference(text: str, x: np.ndarray, part: str, float64: None) -> None:
    made = example(text)
    found = run_example.at(made, clean(made.source()).text, {"x": x})
    assert found and all(difference.what.startswith(part) for difference in found)
