"""Making tensors. The default integer is 32 bits wide in JAX, 64 in torch; devices disappear."""

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import SHAPE, Items, Number, Tensor
from migrate.known.listed_numbers import number_alone, with_numbers
from migrate.rules.rule import Call, Rule, Value, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

FACTORY = "out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False"

# torch dtype: (JAX dtype, what kind of number). 64-bit types need jax_enable_x64, so their 32-bit forms are written.
DTYPES: dict[str, tuple[str, str]] = {
    "torch.float32": ("jnp.float32", "float"),
    "torch.float": ("jnp.float32", "float"),
    "torch.float64": ("jnp.float64", "float"),
    "torch.double": ("jnp.float64", "float"),
    "torch.float16": ("jnp.float16", "float"),
    "torch.half": ("jnp.float16", "float"),
    "torch.bfloat16": ("jnp.bfloat16", "float"),
    "torch.int64": ("jnp.int32", "int"),
    "torch.long": ("jnp.int32", "int"),
    "torch.int32": ("jnp.int32", "int"),
    "torch.int": ("jnp.int32", "int"),
    "torch.int16": ("jnp.int16", "int"),
    "torch.int8": ("jnp.int8", "int"),
    "torch.uint8": ("jnp.uint8", "int"),
    "torch.bool": ("jnp.bool_", "bool"),
}
_KIND_OF_JAX = {**dict(DTYPES.values()), "bool": "bool", "int": "int", "float": "float"}  # Python's own are dtypes, too


def dtype_kind(node: Expr) -> str:
    """ "float", "int" or "bool" for a lowered dtype, "" where it is not a literal one."""
    return _KIND_OF_JAX.get(nodes.code(node), "")


def _filled(name: str, value: str) -> Rule:
    def function(call: Call) -> Value:
        shape = call.shape("size")
        rank = nodes.length(shape)
        if isinstance(shape, cst.Tuple) and rank == 1:
            shape = shape.elements[0].value  # jnp.zeros(3), as people write it
        dtype = {"dtype": call.node("dtype")} if call.has("dtype") else {}
        kind = dtype_kind(call.node("dtype")) if dtype else "float"
        return Value(nodes.call(f"jnp.{value}", shape, **dtype), Tensor(kind, rank))

    doc = (
        f"float32 by default in both.\n\n    >>> x + torch.{name}(2, 3)  # x: f32[2, 3]\n    x + jnp.{value}((2, 3))\n"
        f"    >>> x + torch.{name}(3)  # x: f32[2, 3]\n    x + jnp.{value}(3)\n"
    )
    return Rule((f"torch.{name}",), signature(f"*size, {FACTORY}"), function, False, "float", doc, "creation")


register(_filled("zeros", "zeros"))
register(_filled("ones", "ones"))


@rule("torch.empty", signature=f"*size, {FACTORY}, memory_format=None", dtype="float")
def empty(call: Call) -> Value:
    """What it holds is left open in torch; in JAX it is zeros.

    >>> torch.zeros_like(torch.empty(2, 3))
    jnp.zeros_like(jnp.empty((2, 3)))
    """
    made = _filled("zeros", "empty").function(call)
    assert isinstance(made, Value)
    return made


def _filled_like(name: str) -> Rule:
    def function(call: Call) -> Value:
        dtype = {"dtype": call.node("dtype")} if call.has("dtype") else {}
        kind = call.kind("input")
        made = dtype_kind(call.node("dtype")) if dtype else kind.dtype if isinstance(kind, Tensor) else ""
        return Value(nodes.call(f"jnp.{name}", call.node("input"), **dtype), Tensor(made, call.rank("input")))

    doc = f"Shape and dtype of another tensor.\n\n    >>> x + torch.{name}(x)  # x: f32[2, 3]\n    x + jnp.{name}(x)\n"
    return Rule((f"torch.{name}",), signature(f"input, *, {FACTORY}"), function, False, "like", doc, "creation")


register(_filled_like("zeros_like"))
register(_filled_like("ones_like"))


@rule("torch.empty_like", signature=f"input, *, {FACTORY}, memory_format=None")
def empty_like(call: Call) -> Expr:
    """What it holds is left open in torch; in JAX it is zeros.

    >>> torch.zeros_like(torch.empty_like(x))  # x: f32[2, 3]
    jnp.zeros_like(jnp.empty_like(x))
    """
    return nodes.call("jnp.empty_like", call.node("input"), **call.given("dtype"))


@rule("torch.full", signature=f"size, fill_value, *, {FACTORY}", dtype="")
def full(call: Call) -> Value:
    """The dtype follows the fill value in both.

    >>> x + torch.full((2, 3), 0.5)  # x: f32[2, 3]
    x + jnp.full((2, 3), 0.5)
    """
    dtype = {"dtype": call.node("dtype")} if call.has("dtype") else {}
    return Value(nodes.call("jnp.full", call.node("size"), call.node("fill_value"), **dtype), Tensor())


@rule("torch.full_like", signature=f"input, fill_value, *, {FACTORY}")
def full_like(call: Call) -> Expr:
    """Shape and dtype of another tensor.

    >>> x + torch.full_like(x, 2.0)  # x: f32[2, 3]
    x + jnp.full_like(x, 2.0)
    """
    return nodes.call("jnp.full_like", call.node("input"), call.node("fill_value"), **call.given("dtype"))


@rule(
    "torch.tensor",
    "torch.as_tensor",
    signature="data, *, dtype=None, device=None, requires_grad=False, pin_memory=False",
    dtype="",
)
def tensor(call: Call) -> Value:
    """Copies; numbers become float32 or the default integer. A tensor in a list is the one number that it has.

    >>> x + torch.tensor([1.0, 2.0, 3.0])  # x: f32[2, 3]
    x + jnp.array([1.0, 2.0, 3.0])
    """
    dtype = {"dtype": call.node("dtype")} if call.has("dtype") else {}
    kind = call.kind("data")
    rank = 0 if isinstance(kind, Number) else 1 if isinstance(kind, Items) and isinstance(kind.joined(), Number) else -1
    made = dtype_kind(call.node("dtype")) if dtype else ""
    if not made:
        value = nodes.literal(call.node("data"))
        while isinstance(value, list | tuple) and value:
            value = value[0]
        made = "float" if isinstance(value, float) else "int" if isinstance(value, int) else ""
    data = call.node("data")
    alone = number_alone(data, kind)
    if alone is not None and not dtype:
        return Value(alone, Tensor(made, len(alone.args)))
    data = with_numbers(data, kind) if isinstance(kind, Items) else data
    return Value(nodes.call("jnp.array", data, **dtype), Tensor(made, rank))


@rule("torch.from_numpy", signature="ndarray", dtype="")
def from_numpy(call: Call) -> Value:
    """torch shares the memory, jax copies; float64 becomes float32 unless jax_enable_x64 is set.

    >>> torch.from_numpy(x)  # x: array[2, 3]
    jnp.asarray(x)
    """
    return Value(call.make("jnp.asarray({ndarray})"), Tensor())


@rule("torch.arange", signature=f"start=0, end=None, step=1, *, {FACTORY}", dtype="")
def arange(call: Call) -> Value:
    """One argument is the end; integers give integers.

    >>> x + torch.arange(3)  # x: f32[2, 3]
    x + jnp.arange(3)
    >>> x + torch.arange(0, 6, 2)  # x: f32[2, 3]
    x + jnp.arange(0, 6, 2)
    """
    numbers = [call.node(name) for name in ("start", "end", "step") if name in call.bound]
    dtype = {"dtype": call.node("dtype")} if call.has("dtype") else {}
    literals = [nodes.literal(number) for number in numbers]
    floats = any(isinstance(value, float) for value in literals)
    kind = dtype_kind(call.node("dtype")) if dtype else "float" if floats else "int"
    if floats and kind == "int":
        raise Unsupported("MIG302", f"{call.api}: fractions with a type of integers, which torch rounds first")
    return Value(nodes.call("jnp.arange", *numbers, **dtype), Tensor(kind, 1))


@rule("torch.linspace", signature=f"start, end, steps, *, {FACTORY}", dtype="float")
def linspace(call: Call) -> Value:
    """Includes the end in both.

    >>> x + torch.linspace(0, 1, 3)  # x: f32[2, 3]
    x + jnp.linspace(0, 1, 3)
    """
    dtype = {"dtype": call.node("dtype")} if call.has("dtype") else {}
    if dtype and dtype_kind(call.node("dtype")) == "int":
        raise Unsupported("MIG302", f"{call.api}: a type of integers, for which torch rounds in its own way")
    node = nodes.call("jnp.linspace", call.node("start"), call.node("end"), call.node("steps"), **dtype)
    return Value(node, Tensor(dtype_kind(call.node("dtype")) if dtype else "float", 1))


@rule("torch.eye", signature=f"n, m=None, *, {FACTORY}", dtype="float")
def eye(call: Call) -> Value:
    """float32 in both.

    >>> x @ torch.eye(3)  # x: f32[2, 3]
    x @ jnp.eye(3)
    >>> torch.eye(2, 3, dtype=torch.bool)
    jnp.eye(2, 3, dtype=jnp.bool_)
    """
    columns = [call.node("m")] if call.has("m") else []
    dtype = {"dtype": call.node("dtype")} if call.has("dtype") else {}
    made = dtype_kind(call.node("dtype")) if dtype else "float"
    return Value(nodes.call("jnp.eye", call.node("n"), *columns, **dtype), Tensor(made, 2))


def _new_filled(name: str) -> Rule:
    def function(call: Call) -> Value:
        shape = call.shape("size")
        rank = nodes.length(shape)
        dtype = call.dtype()
        kind = call.kind("input")
        made = dtype_kind(dtype) if call.has("dtype") else kind.dtype if isinstance(kind, Tensor) else ""
        return Value(nodes.call(f"jnp.{name}", shape, dtype), Tensor(made, rank))

    before, after = ("torch.zeros_like(", ")") if name == "empty" else ("", "")  # what it holds is left open
    ours = before.replace("torch", "jnp")
    doc = (
        f"The dtype of another tensor.\n\n    >>> {before}x.new_{name}(2, 3){after}  # x: f32[5]\n"
        f"    {ours}jnp.{name}((2, 3), x.dtype){after}\n"
        f"    >>> {before}x.new_{name}((4,)){after}  # x: i32[5]\n    {ours}jnp.{name}((4,), x.dtype){after}\n"
    )
    parameters = signature(f"input, *size, {FACTORY}")
    return Rule((f"Tensor.new_{name}",), parameters, function, False, "like", doc, "creation")


register(_new_filled("empty"))
register(_new_filled("zeros"))
register(_new_filled("ones"))


@rule("Tensor.new_full", signature=f"input, size, fill_value, *, {FACTORY}")
def new_full(call: Call) -> Value:
    """The dtype of the tensor, not of the fill value.

    >>> x.new_full((2, 3), 7)  # x: f32[5]
    jnp.full((2, 3), 7, x.dtype)
    """
    dtype = call.dtype()
    return Value(call.make("jnp.full({size}, {fill_value}, {dtype})", dtype=dtype), Tensor())


@rule("Tensor.new_tensor", signature="input, data, *, dtype=None, device=None, requires_grad=False")
def new_tensor(call: Call) -> Value:
    """The dtype of the tensor by default.

    >>> x.new_tensor([1, 2])  # x: f32[5]
    jnp.array([1, 2], x.dtype)
    """
    dtype = call.dtype()
    return Value(call.make("jnp.array({data}, {dtype})", dtype=dtype), Tensor())


@rule("Tensor.new", signature="input, *size")
def new(call: Call) -> Value:
    """Of sizes a tensor that torch leaves as memory was, here of zeros; of a list its numbers.

    >>> x + x.new(2, 3).zero_()  # x: f32[2, 3]
    x + jnp.zeros((2, 3), x.dtype)
    >>> x + x.new([1, 2, 3])  # x: f32[2, 3]
    x + jnp.array([1, 2, 3], x.dtype)
    """
    if len(call.rest) == 1 and isinstance(call.rest[0].node, cst.List):
        return Value(call.make("jnp.array({data}, {dtype})", data=call.rest[0].node, dtype=call.dtype()), Tensor())
    shape = call.shape("size")
    if len(call.rest) == 1 and not isinstance(call.rest[0].kind, Number) and nodes.code(shape)[-6:] != ".shape":
        raise Unsupported("MIG302", f"{call.api}: {nodes.code(shape)} may be data or a size")
    return Value(call.make("jnp.zeros({shape}, {dtype})", shape=shape, dtype=call.dtype()), Tensor())


@rule("torch.logspace", signature=f"start, end, steps, base=10.0, *, {FACTORY}", dtype="float")
def logspace(call: Call) -> Value:
    """Powers of 10 at evenly spaced exponents; includes the end in both.

    >>> x * torch.logspace(-1, 1, 3)  # x: f32[3]
    x * jnp.logspace(-1, 1, 3)
    """
    call.only("dtype", None)
    positional = [call.node(name) for name in ("start", "end", "steps")]
    return Value(nodes.call("jnp.logspace", *positional, **call.given("base")), Tensor("float", 1))


@rule("torch.scalar_tensor", signature=f"s, *, {FACTORY}", dtype="")
def scalar_tensor(call: Call) -> Value:
    """float32 whatever the number.

    >>> x + torch.scalar_tensor(2)  # x: f32[2, 3]
    x + jnp.array(2, jnp.float32)
    """
    dtype = call.node("dtype") if call.has("dtype") else nodes.expression("jnp.float32")
    return Value(call.make("jnp.array({s}, {dtype})", dtype=dtype), Tensor(dtype_kind(dtype), 0))


@rule("torch.Size", signature="sizes=()", dtype="")
def size(call: Call) -> Value:
    """A tuple.

    >>> x.reshape(torch.Size([3, 2]))  # x: f32[2, 3]
    x.reshape(tuple([3, 2]))
    """
    return Value(call.make("tuple({sizes})"), Items(None, Number(), SHAPE))
