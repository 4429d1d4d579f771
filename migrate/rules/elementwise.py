"""Functions of one tensor that jax.numpy has under its own name with the same meaning."""

from migrate.nodes import Expr
from migrate.rules.rule import Call, Rule, register, rule, signature

# torch name: (expression of the target, dtype of the result, an input that it is defined for)
ONE_TO_ONE: dict[str, tuple[str, str, str]] = {
    "abs": ("jnp.abs({input})", "like", "f32[2, 3]"),
    "exp": ("jnp.exp({input})", "float", "f32[2, 3]"),
    "expm1": ("jnp.expm1({input})", "float", "f32[2, 3]"),
    "log": ("jnp.log({input})", "float", "pos[2, 3]"),
    "log2": ("jnp.log2({input})", "float", "pos[2, 3]"),
    "log10": ("jnp.log10({input})", "float", "pos[2, 3]"),
    "log1p": ("jnp.log1p({input})", "float", "pos[2, 3]"),
    "sqrt": ("jnp.sqrt({input})", "float", "pos[2, 3]"),
    "rsqrt": ("jax.lax.rsqrt({input})", "float", "pos[2, 3]"),
    "square": ("jnp.square({input})", "like", "f32[2, 3]"),
    "reciprocal": ("1 / {input}", "float", "pos[2, 3]"),
    "sin": ("jnp.sin({input})", "float", "f32[2, 3]"),
    "cos": ("jnp.cos({input})", "float", "f32[2, 3]"),
    "tan": ("jnp.tan({input})", "float", "f32[2, 3]"),
    "sinh": ("jnp.sinh({input})", "float", "f32[2, 3]"),
    "cosh": ("jnp.cosh({input})", "float", "f32[2, 3]"),
    "atan": ("jnp.arctan({input})", "float", "f32[2, 3]"),
    "tanh": ("jnp.tanh({input})", "float", "f32[2, 3]"),
    "sigmoid": ("nn.sigmoid({input})", "float", "f32[2, 3]"),
    "erf": ("jax.lax.erf({input})", "float", "f32[2, 3]"),
    "floor": ("jnp.floor({input})", "like", "f32[2, 3]"),
    "ceil": ("jnp.ceil({input})", "like", "f32[2, 3]"),
    "round": ("jnp.round({input})", "like", "f32[2, 3]"),
    "trunc": ("jnp.trunc({input})", "like", "f32[2, 3]"),
    "sign": ("jnp.sign({input})", "like", "f32[2, 3]"),
    "neg": ("-{input}", "like", "f32[2, 3]"),
    "isnan": ("jnp.isnan({input})", "bool", "f32[2, 3]"),
    "isinf": ("jnp.isinf({input})", "bool", "f32[2, 3]"),
    "isfinite": ("jnp.isfinite({input})", "bool", "f32[2, 3]"),
    "logical_not": ("jnp.logical_not({input})", "bool", "bool[2, 3]"),
}


def _one_to_one(name: str, template: str, dtype: str, example: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(template)

    shown = template.replace("{input}", "x")
    doc = f"The same in JAX.\n\n    >>> torch.{name}(x)  # x: {example}\n    {shown}\n"
    return Rule((f"torch.{name}", f"Tensor.{name}"), signature("input"), function, True, dtype, doc, "elementwise")


for _name, (_template, _dtype, _example) in ONE_TO_ONE.items():
    register(_one_to_one(_name, _template, _dtype, _example))


@rule("torch.pow", "Tensor.pow", signature="input, exponent", elementwise=True)
def power(call: Call) -> Expr:
    """A power, as the operator.

    >>> torch.pow(x, 2)  # x: f32[2, 3]
    x ** 2
    """
    return call.make("{input} ** {exponent}")


@rule(
    "torch.clamp", "Tensor.clamp", "torch.clip", "Tensor.clip", signature="input, min=None, max=None", elementwise=True
)
def clamp(call: Call) -> Expr:
    """The gradient at the bounds is 1 in torch and 0.5 or 1 in JAX, at exact ties only.

    >>> torch.clamp(x, -0.5, 0.5)  # x: f32[2, 3]
    jnp.clip(x, -0.5, 0.5)
    >>> x.clamp(min=0.1)  # x: f32[2, 3]
    jnp.clip(x, min=0.1)
    """
    if call.has("min") and call.has("max"):
        return call.make("jnp.clip({input}, {min}, {max})")
    return call.make("jnp.clip({input}, min={min})") if call.has("min") else call.make("jnp.clip({input}, max={max})")


@rule("Tensor.clamp_min", "torch.clamp_min", signature="input, min", elementwise=True)
def clamp_min(call: Call) -> Expr:
    """Clamps from below only.

    >>> x.clamp_min(0.1)  # x: f32[2, 3]
    jnp.clip(x, min=0.1)
    """
    return call.make("jnp.clip({input}, min={min})")


def _arithmetic(name: str, operator: str, alpha: bool) -> Rule:
    def function(call: Call) -> Expr:
        if call.has("alpha"):
            return call.make(f"{{input}} {operator} {{alpha}} * {{other}}")
        return call.make(f"{{input}} {operator} {{other}}")

    doc = f"The operator.\n\n    >>> torch.{name}(x, y)  # x: f32[2, 3]; y: pos[2, 3]\n    x {operator} y\n"
    text = "input, other, *, alpha=1" if alpha else "input, other"
    return Rule((f"torch.{name}", f"Tensor.{name}"), signature(text), function, False, "like", doc, "elementwise")


for _name, _operator, _alpha in (("add", "+", True), ("sub", "-", True), ("mul", "*", False)):
    register(_arithmetic(_name, _operator, _alpha))


@rule("torch.div", "Tensor.div", "torch.true_divide", signature="input, other, *, rounding_mode=None", dtype="float")
def divide(call: Call) -> Expr:
    """True division, of integers too; a rounding mode other than "floor" is refused.

    >>> torch.div(x, y)  # x: f32[2, 3]; y: pos[2, 3]
    x / y
    >>> torch.div(x, 3, rounding_mode="floor")  # x: f32[2, 3]
    x // 3
    """
    call.only("rounding_mode", None, "floor")
    return call.make("{input} // {other}") if call.has("rounding_mode") else call.make("{input} / {other}")


def _comparison(name: str, operator: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(f"{{input}} {operator} {{other}}")

    doc = f"The operator.\n\n    >>> torch.{name}(x, y)  # x: i32[2, 3]; y: i32[2, 3]\n    x {operator} y\n"
    names = (f"torch.{name}", f"Tensor.{name}")
    return Rule(names, signature("input, other"), function, False, "bool", doc, "elementwise")


for _name, _operator in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    register(_comparison(_name, _operator))


def _pairwise(name: str, function_name: str, dtype: str, example: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(f"{function_name}({{input}}, {{other}})")

    doc = f"The same in JAX.\n\n    >>> torch.{name}(x, y)  # x: {example}; y: {example}\n    {function_name}(x, y)\n"
    names = (f"torch.{name}", f"Tensor.{name}")
    return Rule(names, signature("input, other"), function, False, dtype, doc, "elementwise")


for _name, _function, _dtype, _example in (
    ("maximum", "jnp.maximum", "like", "f32[2, 3]"),
    ("minimum", "jnp.minimum", "like", "f32[2, 3]"),
    ("logical_and", "jnp.logical_and", "bool", "bool[2, 3]"),
    ("logical_or", "jnp.logical_or", "bool", "bool[2, 3]"),
    ("atan2", "jnp.arctan2", "float", "pos[2, 3]"),
    ("fmod", "jnp.fmod", "like", "pos[2, 3]"),
):
    register(_pairwise(_name, _function, _dtype, _example))


@rule("torch.where", signature="condition, input, other", dtype="")
def where(call: Call) -> Expr:
    """The one-argument form, which lists indices, has a shape that depends on the data and is refused.

    >>> torch.where(x > 0, x, 0.0)  # x: f32[2, 3]
    jnp.where(x > 0, x, 0.0)
    """
    return call.make("jnp.where({condition}, {input}, {other})")


@rule("Tensor.masked_fill", "torch.masked_fill", signature="input, mask, value")
def masked_fill(call: Call) -> Expr:
    """The mask broadcasts against the tensor.

    >>> x.masked_fill(y > 0, -1.0)  # x: f32[2, 3]; y: f32[2, 3]
    jnp.where(y > 0, -1.0, x)
    """
    return call.make("jnp.where({mask}, {value}, {input})")
