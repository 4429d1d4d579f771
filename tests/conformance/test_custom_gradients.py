"""`torch.autograd.Function` as `jax.custom_vjp`: values and gradients, the user's own and not the true ones."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.conformance import rewritten

HEAD = "import torch\nfrom torch.autograd import Function\n\n\n"
RELU = '''class Own(Function):
    """A ReLU whose gradient is three times too large."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        grad_x = grad_output.clone()
        grad_x[x < 0] = 0
        return 3 * grad_x


def run(x, y):
    return Own.apply(x).mul(y)
'''
LINEAR = """class Own(Function):
    @staticmethod
    def forward(ctx, x, weight, scale, mode="sum", bias=None):
        ctx.save_for_backward(x, weight, bias)
        ctx.scale = scale
        out = x.mm(weight.t()) * scale
        ctx.out = out
        if bias is not None:
            out = out + bias
        return out, out.sum()

    @staticmethod
    def backward(ctx, grad_output, grad_sum):
        x, weight, bias = ctx.saved_tensors
        grad_x = grad_weight = grad_bias = None
        grad = grad_output + grad_sum + ctx.out
        if ctx.needs_input_grad[0]:
            grad_x = grad.mm(weight) * ctx.scale
        if ctx.needs_input_grad[1]:
            grad_weight = grad.t().mm(x) * ctx.scale
        if bias is not None and ctx.needs_input_grad[4]:
            grad_bias = grad.sum(0)
        return grad_x, grad_weight, None, None, grad_bias


def run(x, y):
    out, total = Own.apply(x, y, 2.0)
    return out * 3 + total
"""
STRAIGHT_THROUGH = """class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.levels = levels
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.levels, None


quantize = Own.apply


def run(x, y):
    return quantize(x, 4) * y
"""
UNUSED = """class Own(Function):
    @staticmethod
    def forward(ctx, x, y):
        saved = x * y
        ctx.save_for_backward(saved)
        return saved.exp()

    @staticmethod
    def backward(ctx, grad_output):
        saved = ctx.saved_tensors[0]
        return grad_output * saved, None


def run(x, y):
    return Own.apply(x, y)
"""
NEAREST = """class Nearest(Function):
    @staticmethod
    def forward(ctx, x, codes):
        with torch.no_grad():
            distances = torch.addmm((codes**2).sum(dim=1), x, codes.t(), alpha=-2.0)
            _, found = torch.min(distances, dim=1)
            ctx.mark_non_differentiable(found)
            return found

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("no gradient")


class Own(Function):
    @staticmethod
    def forward(ctx, x, codes):
        found = Nearest.apply(x, codes)
        ctx.save_for_backward(found, codes)
        ctx.mark_non_differentiable(found)
        return torch.index_select(codes, dim=0, index=found), found

    @staticmethod
    def backward(ctx, gradient, _):
        of_x, of_codes = None, None
        if ctx.needs_input_grad[0]:
            of_x = gradient.clone()
        if ctx.needs_input_grad[1]:
            found, codes = ctx.saved_tensors
            of_codes = torch.zeros_like(codes)
            of_codes.index_add_(0, found, gradient)
        return of_x, of_codes


def run(x, y):
    made, found = Own.apply(x, y)
    return made * (1 + found.float().sum())
"""
CALL = "\nprint(run(torch.ones(3, 3), torch.ones(3, 3)))\n"


TEXTS = {"relu": RELU, "linear": LINEAR, "ste": STRAIGHT_THROUGH, "unused": UNUSED, "nearest": NEAREST}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_values_and_gradients(text: str, float64: None) -> None:
    made = rewritten.clean(HEAD + text + CALL)
    assert "jax.custom_vjp" in made.text and "ctx." not in made.text
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 3, 3))
    a, b = torch.tensor(x, requires_grad=True), torch.tensor(y, requires_grad=True)
    theirs = rewritten.executed(HEAD + text)["run"](a, b)
    (theirs**2).sum().backward()
    own = rewritten.executed(made.text)["run"]
    loss = jax.jit(jax.grad(lambda x, y: (own(x, y) ** 2).sum(), argnums=(0, 1)))
    np.testing.assert_allclose(np.asarray(own(jnp.asarray(x), jnp.asarray(y))), theirs.detach().numpy(), rtol=1e-14)
    for found, expected in zip(loss(jnp.asarray(x), jnp.asarray(y)), (a.grad, b.grad), strict=True):
        wanted = np.zeros((3, 3)) if expected is None else expected.numpy()
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-13)


BODY = "    @staticmethod\n    def forward(ctx, x):\n        {0}\n        return x * 2\n\n    @staticmethod\n"
DECLINED = {
    "ctx.mark_non_differentiable(x)": "which may hold other than integers",
    "ctx.set_materialize_grads(False)": "what forward asks of ctx",
    "ctx.save_for_backward(x * 2)": "other than names",
    "y = x\n        ctx.save_for_backward(y)\n        y = y + 1": "bound again",
    "x = x + torch.randn(3)": "draws random numbers",
}


@pytest.mark.parametrize("line", DECLINED)
def test_declined(line: str) -> None:
    text = f"{HEAD}class Own(Function):\n{BODY.format(line)}    def backward(ctx, g):\n        return g\n"
    (found,) = rewritten.conversion(text + "\n\nprint(Own.apply(torch.ones(3)))\n").report.diagnostics
    assert found.code == "MIG201" and DECLINED[line] in found.message
