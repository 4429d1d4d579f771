"""Functions of two tensors: arithmetic, comparisons, choices."""

import libcst as cst

from migrate.known.kinds import Tensor
from migrate.rules.rule import Call, Rule, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def _arithmetic(name: str, operator: str, alpha: bool) -> Rule:
    def function(call: Call) -> Expr:
        if call.has("alpha"):
            scale, sign = _unsigned(call.node("alpha"), operator)
            return call.make(f"{{input}} {sign} {{scale}} * {{other}}", scale=scale)
        return call.make(f"{{input}} {operator} {{other}}")

    doc = f"The operator.\n\n    >>> torch.{name}(x, y)  # x: f32[2, 3]; y: pos[2, 3]\n    x {operator} y\n"
    if alpha:
        other = "-" if operator == "+" else "+"
        doc += f"    >>> torch.{name}(x, y, alpha=-2)  # x: f32[2, 3]; y: f32[2, 3]\n    x {other} 2 * y\n"
    text = "input, other, *, alpha=1" if alpha else "input, other"
    long = {"sub": "subtract", "mul": "multiply"}.get(name)
    names = [full for each in (name, long) for full in (f"torch.{each}", f"Tensor.{each}") if each]
    return Rule(tuple(names), signature(text), function, False, "like", doc, "pairwise")


def _unsigned(scale: Expr, operator: str) -> tuple[Expr, str]:
    """A factor without its minus, and the operator that has it: `x + -rate * y` is `x - rate * y`, to the bit."""
    if not isinstance(scale, cst.UnaryOperation) or not isinstance(scale.operator, cst.Minus):
        return scale, operator
    return scale.expression, "-" if operator == "+" else "+"


for _name, _operator, _alpha in (("add", "+", True), ("sub", "-", True), ("mul", "*", False)):
    register(_arithmetic(_name, _operator, _alpha))


@rule(
    "torch.div", "Tensor.div", "torch.true_divide", "Tensor.true_divide", "torch.divide", "Tensor.divide",
    signature="input, other, *, rounding_mode=None", dtype="float",
)  # fmt: skip
def divide(call: Call) -> Expr:
    """True division, of integers too. Rounded towards zero, integers stay integers.

    >>> torch.div(x, y)  # x: f32[2, 3]; y: pos[2, 3]
    x / y
    >>> torch.div(x, y)  # x: i32[2, 3]; y: idx5[3]
    x / y
    >>> torch.div(x, y, rounding_mode="floor")  # x: i32[2, 3]; y: i32[3]
    x // y
    >>> torch.div(x, 3, rounding_mode="floor")  # x: f32[2, 3]
    x // 3
    >>> torch.div(x, 3, rounding_mode="trunc")  # x: f32[2, 3]
    truncated_quotient(x, 3)
    >>> torch.div(x, y, rounding_mode="trunc")  # x: i32[2, 3]; y: i32[3]
    truncated_quotient(x, y)
    """
    call.only("rounding_mode", None, "floor", "trunc")
    if nodes.is_literal(call.node("rounding_mode"), "trunc"):
        return nodes.call(call.snippet("truncated_quotient"), call.node("input"), call.node("other"))
    return call.make("{input} // {other}") if call.has("rounding_mode") else call.make("{input} / {other}")


def _comparison(name: str, operator: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(f"{{input}} {operator} {{other}}")

    doc = f"The operator.\n\n    >>> torch.{name}(x, y)  # x: i32[2, 3]; y: i32[2, 3]\n    x {operator} y\n"
    names = [full for each in (name, _LONG_NAMES[name]) for full in (f"torch.{each}", f"Tensor.{each}") if each]
    return Rule(tuple(names), signature("input, other"), function, False, "bool", doc, "pairwise")


_LONG_NAMES = {"ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": ""}
for _name, _operator in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    register(_comparison(_name, _operator))


def _pairwise(name: str, function_name: str, dtype: str, example: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(f"{function_name}({{input}}, {{other}})")

    doc = f"The same in JAX.\n\n    >>> torch.{name}(x, y)  # x: {example}; y: {example}\n    {function_name}(x, y)\n"
    names = (f"torch.{name}", f"Tensor.{name}")
    return Rule(names, signature("input, other"), function, False, dtype, doc, "pairwise")


@rule("torch.atan2", "Tensor.atan2", "torch.arctan2", "Tensor.arctan2", signature="input, other", dtype="float")
def atan2(call: Call) -> Expr:
    """At the origin the gradient is 0 in torch and NaN in JAX, unless that is told.

    >>> torch.atan2(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    arctan2(x, y)
    >>> torch.atan2(x, y)  # x: f32[2, 3]; y: f32[2, 3]; on the host
    jnp.arctan2(x, y)
    """
    function = call.snippet("arctan2") if call.traced else "jnp.arctan2"
    return nodes.call(function, call.node("input"), call.node("other"))


for _name, _function, _dtype, _example in (
    ("maximum", "jnp.maximum", "like", "f32[2, 3]"),
    ("minimum", "jnp.minimum", "like", "f32[2, 3]"),
    ("logical_and", "jnp.logical_and", "bool", "bool[2, 3]"),
    ("logical_or", "jnp.logical_or", "bool", "bool[2, 3]"),
    ("fmod", "jnp.fmod", "like", "pos[2, 3]"),
    ("remainder", "jnp.remainder", "like", "f32[2, 3]"),
    ("floor_divide", "jnp.floor_divide", "like", "i32[2, 3]"),
    ("logical_xor", "jnp.logical_xor", "bool", "bool[2, 3]"),
    ("bitwise_and", "jnp.bitwise_and", "like", "i32[2, 3]"),
    ("bitwise_or", "jnp.bitwise_or", "like", "i32[2, 3]"),
    ("bitwise_xor", "jnp.bitwise_xor", "like", "i32[2, 3]"),
    ("hypot", "jnp.hypot", "float", "f32[2, 3]"),
    ("logaddexp", "jnp.logaddexp", "float", "f32[2, 3]"),
    ("xlogy", "jax.scipy.special.xlogy", "float", "pos[2, 3]"),
    ("fmax", "jnp.fmax", "like", "f32[2, 3]"),
    ("fmin", "jnp.fmin", "like", "f32[2, 3]"),
    ("copysign", "jnp.copysign", "float", "f32[2, 3]"),
    ("gcd", "jnp.gcd", "int", "i32[2, 3]"),
    ("lcm", "jnp.lcm", "int", "i32[2, 3]"),
    ("bitwise_left_shift", "jnp.left_shift", "int", "idx5[2, 3]"),
    ("bitwise_right_shift", "jnp.right_shift", "int", "idx5[2, 3]"),
    ("logaddexp2", "jnp.logaddexp2", "float", "f32[2, 3]"),
):
    register(_pairwise(_name, _function, _dtype, _example))


@rule("torch.where", signature="condition, input=None, other=None", dtype="")
def where(call: Call) -> Expr:
    """The one-argument form lists indices: its shape depends on the data, so that jit has none.

    >>> torch.where(x > 0, x, 0.0)  # x: f32[2, 3]
    jnp.where(x > 0, x, 0.0)
    >>> torch.where(x > 0)  # x: f32[2, 3]; on the host
    jnp.nonzero(x > 0)
    """
    if not (call.has("input") or call.has("other")):
        call.on_host("torch.where of a condition alone")
        return call.make("jnp.nonzero({condition})")
    return call.make("jnp.where({condition}, {input}, {other})")


@rule("Tensor.masked_fill", "torch.masked_fill", signature="input, mask, value")
def masked_fill(call: Call) -> Expr:
    """The mask broadcasts against the tensor.

    >>> x.masked_fill(y > 0, -1.0)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.where(y > 0, -1.0, x)
    >>> (x > 1).masked_fill(x < 0, 1)  # x: f32[2, 3]
    jnp.where(x < 0, True, x > 1)
    >>> x.masked_fill(y, 10)  # x: bool[2, 3]; y: bool[3]
    jnp.where(y, 10, x).astype(x.dtype)
    """
    kind, number = call.kind("input"), nodes.literal(call.node("value"))
    dtype = kind.dtype if isinstance(kind, Tensor) else ""
    if dtype == "bool" and isinstance(number, int | float):
        return call.make("jnp.where({mask}, {number}, {input})", number=str(bool(number)))
    if not dtype and type(number) is int and number not in (0, 1) and nodes.dotted(call.node("input")):
        return call.make("jnp.where({mask}, {value}, {input}).astype({input}.dtype)")
    return call.make("jnp.where({mask}, {value}, {input})")


@rule("torch.lerp", "Tensor.lerp", signature="input, end, weight")
def lerp(call: Call) -> Expr:
    """From `input` at weight 0 to `end` at weight 1.

    >>> torch.lerp(x, y, 0.3)  # x: f32[2, 3]; y: f32[2, 3]
    x + 0.3 * (y - x)
    """
    return call.make("{input} + {weight} * ({end} - {input})")


def _fused(name: str, operator: str) -> Rule:
    def function(call: Call) -> Expr:
        if not call.has("value"):
            return call.make(f"{{input}} + {{tensor1}} {operator} {{tensor2}}")
        value, sign = _unsigned(call.node("value"), "+")
        return call.make(f"{{input}} {sign} {{value}} * {{tensor1}} {operator} {{tensor2}}", value=value)

    example = f">>> torch.{name}(x, y, z)  # x: f32[2, 3]; y: f32[2, 3]; z: pos[3]\n    x + y {operator} z"
    doc = f"Adds value * tensor1 {operator} tensor2.\n\n    {example}\n"
    names = (f"torch.{name}", f"Tensor.{name}")
    return Rule(names, signature("input, tensor1, tensor2, *, value=1"), function, False, "like", doc, "pairwise")


register(_fused("addcmul", "*"))
register(_fused("addcdiv", "/"))


def _close(name: str) -> Rule:
    def function(call: Call) -> Expr:
        given = {n: call.node(n) for n in ("rtol", "atol", "equal_nan") if call.has(n)}
        return nodes.call(f"jnp.{name}", call.node("input"), call.node("other"), **given)

    doc = f"The same tolerances by default.\n\n    >>> torch.{name}(x, x)  # x: f32[2, 3]\n    jnp.{name}(x, x)\n"
    names = (f"torch.{name}", f"Tensor.{name}")
    parameters = signature("input, other, rtol=1e-05, atol=1e-08, equal_nan=False")
    return Rule(names, parameters, function, False, "bool", doc, "pairwise")


register(_close("isclose"))
register(_close("allclose"))


@rule("torch.equal", "Tensor.equal", signature="input, other", dtype="bool")
def equal(call: Call) -> Expr:
    """Whether shapes and all elements are equal. A Python boolean in torch, an array in JAX.

    >>> torch.equal(x, x + 1)  # x: f32[2, 3]
    jnp.array_equal(x, x + 1)
    """
    return call.make("jnp.array_equal({input}, {other})")


@rule("Tensor.where", signature="input, condition, other", dtype="")
def where_method(call: Call) -> Expr:
    """Keeps the tensor where the condition holds.

    >>> x.where(x > 0, y)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.where(x > 0, x, y)
    """
    return call.make("jnp.where({condition}, {input}, {other})")


@rule("torch.rsub", signature="input, other, *, alpha=1")
def rsub(call: Call) -> Expr:
    """The other way round.

    >>> torch.rsub(x, y)  # x: f32[2, 3]; y: f32[2, 3]
    y - x
    >>> torch.rsub(x, 3, alpha=2)  # x: f32[2, 3]
    3 - 2 * x
    """
    return call.make("{other} - {alpha} * {input}" if call.has("alpha") else "{other} - {input}")


@rule("torch.heaviside", "Tensor.heaviside", signature="input, values")
def heaviside(call: Call) -> Expr:
    """`values` is what it is at 0. Keeps integers and booleans, of which `jnp.heaviside` makes floats.

    >>> torch.heaviside(x, y)  # x: const[2, 3]; y: const[3]
    jnp.where(x == 0, y, x > 0)
    """
    return call.make("jnp.where({input} == 0, {values}, {input} > 0)")
