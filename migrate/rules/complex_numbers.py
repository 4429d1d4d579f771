"""Complex numbers."""

from functools import partial

import libcst as cst

from migrate.known.kinds import Number, Tensor
from migrate.rules.rule import Call, Value, plain, rule
from migrate.syntax.nodes import Expr

_plain = partial(plain, family="complex_numbers", dtype="")


@rule("torch.complex", signature="real, imag")
def from_parts(call: Call) -> Expr:
    """From its two parts, which broadcast in torch alone.

    >>> torch.complex(x, y).abs()  # x: f32[2, 3]; y: f32[2, 3]
    absolute(jax.lax.complex(x, y))
    >>> torch.complex(x.view(2, 3), y.view(3)).abs()  # x: f32[2, 3]; y: f32[3]
    absolute(jax.lax.complex(*jnp.broadcast_arrays(x.reshape(2, 3), y.reshape(3))))
    """
    if call.rank("real") == call.rank("imag"):
        return call.make("jax.lax.complex({real}, {imag})")
    return call.make("jax.lax.complex(*jnp.broadcast_arrays({real}, {imag}))")


_plain(
    "torch.polar", "abs, angle", "{abs} * jnp.exp(1j * {angle})", "From size and angle.",
    "torch.view_as_real(torch.polar(x, y))  # x: pos[2, 3]; y: f32[2, 3] -> "
    "jnp.stack([(x * jnp.exp(1j * y)).real, (x * jnp.exp(1j * y)).imag], axis=-1)",
)  # fmt: skip
_plain(
    "torch.real", "input", "{input}.real", "The real part.",
    "torch.real(torch.complex(x, x))  # x: f32[2, 3] -> jax.lax.complex(x, x).real", dtype="float",
)  # fmt: skip
_plain(
    "torch.imag", "input", "{input}.imag", "The imaginary part; of real numbers an error in torch.",
    "torch.imag(torch.complex(x, x))  # x: f32[2, 3] -> jax.lax.complex(x, x).imag", dtype="float",
)  # fmt: skip
_plain(
    "torch.conj Tensor.conj torch.conj_physical Tensor.conj_physical", "input", "jnp.conj({input})",
    "A copy in JAX, a view in torch.",
    "torch.conj(torch.complex(x, x)).imag  # x: f32[2, 3] -> jnp.conj(jax.lax.complex(x, x)).imag", dtype="like",
)  # fmt: skip
_plain(
    "torch.resolve_conj Tensor.resolve_conj torch.resolve_neg Tensor.resolve_neg", "input", "{input}",
    "Nothing is left to be done in JAX.",
    "x.resolve_conj() * 2  # x: f32[2, 3] -> x * 2", dtype="like",
)  # fmt: skip
_plain(
    "torch.angle Tensor.angle", "input", "jnp.angle({input})", "Of real numbers 0 or pi.",
    "torch.angle(torch.complex(x, y))  # x: f32[2, 3]; y: f32[2, 3] -> jnp.angle(jax.lax.complex(x, y))",
    dtype="float",
)  # fmt: skip


@rule("torch.view_as_complex", signature="input")
def view_as_complex(call: Call) -> Value:
    """Pairs on the last axis become complex numbers.

    >>> torch.view_as_complex(x).abs()  # x: f32[3, 2]
    absolute(jax.lax.complex(x[..., 0], x[..., 1]))
    >>> torch.view_as_complex(x.reshape(3, 2, 2)).abs()  # x: f32[3, 4]
    absolute(jax.lax.complex(*jnp.moveaxis(x.reshape(3, 2, 2), -1, 0)))
    """
    short = isinstance(call.node("input"), cst.Name)
    text = "jax.lax.complex({input}[..., 0], {input}[..., 1])"
    return Value(call.make(text if short else "jax.lax.complex(*jnp.moveaxis({input}, -1, 0))"), Tensor())


@rule("torch.view_as_real", signature="input", dtype="float")
def view_as_real(call: Call) -> Expr:
    """A new last axis of length 2.

    >>> torch.view_as_real(torch.complex(x, x))  # x: f32[2, 3]
    jnp.stack([jax.lax.complex(x, x).real, jax.lax.complex(x, x).imag], axis=-1)
    """
    return call.make("jnp.stack([{input}.real, {input}.imag], axis=-1)")


@rule("torch.is_complex", "Tensor.is_complex", signature="input")
def is_complex(call: Call) -> Value:
    """A Python boolean in both.

    >>> x * torch.is_complex(x)  # x: f32[2, 3]
    x * jnp.iscomplexobj(x)
    """
    return Value(call.make("jnp.iscomplexobj({input})"), Number())


@rule("torch.is_floating_point", "Tensor.is_floating_point", signature="input")
def is_floating_point(call: Call) -> Value:
    """A Python boolean in both.

    >>> x * torch.is_floating_point(x)  # x: f32[2, 3]
    x * jnp.issubdtype(x.dtype, jnp.floating)
    """
    return Value(call.make("jnp.issubdtype({input}.dtype, jnp.floating)"), Number())
