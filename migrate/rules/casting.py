"""Changing the type of a tensor. 64-bit types need jax_enable_x64, so their 32-bit forms are written."""

from migrate.known.kinds import DType, Number, Plain, Tensor
from migrate.rules.rule import Call, Rule, Value, register, rule, signature
from migrate.syntax.nodes import Expr

_CAST = "input, memory_format=torch.preserve_format"  # jax arrays have no strides


def _cast(method: str, dtype: str, kind: str) -> Rule:
    def function(call: Call) -> Value:
        return Value(call.make(f"{{input}}.astype({dtype})"), Tensor(kind, call.rank("input")))

    doc = f"A cast.\n\n    >>> x.{method}()  # x: i32[2, 3]\n    x.astype({dtype})\n"
    return Rule((f"Tensor.{method}",), signature(_CAST), function, False, kind, doc, "casting")


for _method, _dtype, _kind in (
    ("float", "jnp.float32", "float"),
    ("long", "jnp.int32", "int"),
    ("int", "jnp.int32", "int"),
    ("bool", "jnp.bool_", "bool"),
    ("half", "jnp.float16", "float"),
    ("bfloat16", "jnp.bfloat16", "float"),
    ("double", "jnp.float64", "float"),
    ("short", "jnp.int16", "int"),
    ("char", "jnp.int8", "int"),
    ("byte", "jnp.uint8", "int"),
    ("cfloat", "jnp.complex64", ""),
    ("cdouble", "jnp.complex128", ""),
):
    register(_cast(_method, _dtype, _kind))


@rule("Tensor.type_as", signature="input, other")
def type_as(call: Call) -> Expr:
    """The dtype of another tensor.

    >>> x.type_as(y)  # x: i32[2, 3]; y: f32[2]
    x.astype(y.dtype)
    """
    return call.make("{input}.astype({other}.dtype)")


@rule("torch.finfo", signature="type", dtype="")
def finfo(call: Call) -> Value:
    """Limits of a type of float; without a type torch takes its default one, which is refused.

    >>> x + torch.finfo(torch.float32).eps  # x: f32[2, 3]
    x + jnp.finfo(jnp.float32).eps
    >>> x.clamp(min=torch.finfo(x.dtype).tiny)  # x: f32[2, 3]
    clamp(x, min=jnp.finfo(x.dtype).tiny)
    """
    return Value(call.make("jnp.finfo({type})"), Plain("finfo"))


@rule("torch.iinfo", signature="type", dtype="")
def iinfo(call: Call) -> Value:
    """Limits of a type of integers; torch's 64 bits are 32 in JAX.

    >>> x.clamp(max=torch.iinfo(torch.int16).max)  # x: i32[2, 3]
    clamp(x, max=jnp.iinfo(jnp.int16).max)
    """
    return Value(call.make("jnp.iinfo({type})"), Plain("finfo"))


@rule("Tensor.element_size", signature="input")
def element_size(call: Call) -> Value:
    """Bytes of one element.

    >>> x * x.element_size()  # x: i32[2, 3]
    x * x.dtype.itemsize
    """
    return Value(call.make("{input}.dtype.itemsize"), Number())


@rule("torch.result_type", signature="tensor, other")
def result_type(call: Call) -> Value:
    """What the two would make together.

    >>> x.type(torch.result_type(x, y))  # x: i32[2, 3]; y: f32[2]
    x.astype(jnp.result_type(x, y))
    """
    return Value(call.make("jnp.result_type({tensor}, {other})"), DType())


@rule("torch.get_default_dtype", signature="")
def get_default_dtype(call: Call) -> Value:
    """float32: that another one was set is not followed.

    >>> x.to(torch.get_default_dtype())  # x: i32[2, 3]
    x.astype(jnp.result_type(float))
    """
    return Value(call.make("jnp.result_type(float)"), DType())
