"""Functions of one tensor that jax.numpy has under its own name with the same meaning."""

from migrate.known.kinds import Tensor
from migrate.rules.rule import Call, Rule, as_float, power_of_integers, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

# torch name: (expression of the target, dtype of the result, an input that it is defined for)
ONE_TO_ONE: dict[str, tuple[str, str, str]] = {
    "exp": ("jnp.exp({input})", "float", "f32[2, 3]"),
    "expm1": ("jnp.expm1({input})", "float", "f32[2, 3]"),
    "log": ("jnp.log({input})", "float", "pos[2, 3]"),
    "log2": ("jnp.log2({input})", "float", "pos[2, 3]"),
    "log10": ("jnp.log10({input})", "float", "pos[2, 3]"),
    "log1p": ("jnp.log1p({input})", "float", "pos[2, 3]"),
    "sqrt": ("jnp.sqrt({input})", "float", "pos[2, 3]"),
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
    "erf": ("jax.scipy.special.erf({input})", "float", "f32[2, 3]"),
    "floor": ("jnp.floor({input})", "like", "f32[2, 3]"),
    "ceil": ("jnp.ceil({input})", "like", "f32[2, 3]"),
    "trunc": ("jnp.trunc({input})", "like", "f32[2, 3]"),
    "sign": ("jnp.sign({input})", "like", "f32[2, 3]"),
    "neg": ("-{input}", "like", "f32[2, 3]"),
    "acosh": ("jnp.arccosh({input})", "float", "above[2, 3]"),
    "arccosh": ("jnp.arccosh({input})", "float", "above[2, 3]"),
    "positive": ("{input}", "like", "f32[2, 3]"),
    "sgn": ("jnp.sign({input})", "like", "const[2, 3]"),
    "isreal": ("jnp.isreal({input})", "bool", "f32[2, 3]"),
    "arcsin": ("jnp.arcsin({input})", "float", "unit[2, 3]"),
    "arccos": ("jnp.arccos({input})", "float", "unit[2, 3]"),
    "arcsinh": ("jnp.arcsinh({input})", "float", "f32[2, 3]"),
    "arctanh": ("jnp.arctanh({input})", "float", "unit[2, 3]"),
    "fix": ("jnp.trunc({input})", "like", "f32[2, 3]"),
    "isnan": ("jnp.isnan({input})", "bool", "f32[2, 3]"),
    "isinf": ("jnp.isinf({input})", "bool", "f32[2, 3]"),
    "isfinite": ("jnp.isfinite({input})", "bool", "f32[2, 3]"),
    "exp2": ("jnp.exp2({input})", "float", "f32[2, 3]"),
    "asin": ("jnp.arcsin({input})", "float", "unit[2, 3]"),
    "acos": ("jnp.arccos({input})", "float", "unit[2, 3]"),
    "asinh": ("jnp.arcsinh({input})", "float", "f32[2, 3]"),
    "atanh": ("jnp.arctanh({input})", "float", "unit[2, 3]"),
    "arctan": ("jnp.arctan({input})", "float", "f32[2, 3]"),
    "erfc": ("jax.scipy.special.erfc({input})", "float", "f32[2, 3]"),
    "erfinv": ("jax.scipy.special.erfinv({input})", "float", "unit[2, 3]"),
    "lgamma": ("jax.scipy.special.gammaln({input})", "float", "pos[2, 3]"),
    "deg2rad": ("jnp.deg2rad({input})", "float", "f32[2, 3]"),
    "rad2deg": ("jnp.rad2deg({input})", "float", "f32[2, 3]"),
    "frac": ("{input} - jnp.trunc({input})", "float", "f32[2, 3]"),
    "negative": ("-{input}", "like", "f32[2, 3]"),
    "signbit": ("jnp.signbit({input})", "bool", "f32[2, 3]"),
    "isposinf": ("jnp.isposinf({input})", "bool", "f32[2, 3]"),
    "isneginf": ("jnp.isneginf({input})", "bool", "f32[2, 3]"),
    "bitwise_not": ("~{input}", "like", "i32[2, 3]"),
    "logical_not": ("jnp.logical_not({input})", "bool", "bool[2, 3]"),
}


def _one_to_one(name: str, template: str, dtype: str, example: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(template, input=as_float(call, "input") if name == "sigmoid" else call.node("input"))

    shown = template.replace("{input}", "x")
    doc = f"The same in JAX.\n\n    >>> torch.{name}(x)  # x: {example}\n    {shown}\n"
    return Rule((f"torch.{name}", f"Tensor.{name}"), signature("input"), function, True, dtype, doc, "elementwise")


for _name, (_template, _dtype, _example) in ONE_TO_ONE.items():
    register(_one_to_one(_name, _template, _dtype, _example))


@rule("torch.rsqrt", "Tensor.rsqrt", signature="input", elementwise=True, dtype="float")
def rsqrt(call: Call) -> Expr:
    """`jax.lax.rsqrt` takes floats alone.

    >>> torch.rsqrt(x.exp())  # x: f32[2, 3]
    jax.lax.rsqrt(jnp.exp(x))
    >>> torch.rsqrt(x)  # x: pos[2, 3]
    1 / jnp.sqrt(x)
    """
    kind = call.kind("input")
    floats = isinstance(kind, Tensor) and kind.dtype == "float"
    return call.make("jax.lax.rsqrt({input})" if floats else "1 / jnp.sqrt({input})")


@rule("torch.abs", "Tensor.abs", "torch.absolute", "Tensor.absolute", signature="input", elementwise=True)
def absolute_value(call: Call) -> Expr:
    """The gradient at exactly 0 is 0 in torch and 1 in JAX, unless that is told.

    >>> torch.abs(x)  # x: f32[2, 3]
    absolute(x)
    >>> torch.abs(x)  # x: f32[2, 3]; on the host
    jnp.abs(x)
    """
    kind = call.kind("input")
    smooth = call.traced and not (isinstance(kind, Tensor) and kind.dtype in ("int", "bool"))
    return call.make(f"{call.snippet('absolute') if smooth else 'jnp.abs'}({{input}})")


@rule("torch.pow", "Tensor.pow", signature="input, exponent", elementwise=True)
def power(call: Call) -> Expr:
    """A power, as the operator. The gradient of `x ** 0.0` at 0 is 0 in torch and NaN in JAX, unlike that of `x ** 0`.
    A negative power of an integer is 0 in torch, unless of 1 and -1, and any number in JAX.

    >>> torch.pow(x, 2)  # x: f32[2, 3]
    x ** 2
    >>> x.pow(0.5)  # x: pos[2, 3]
    x ** 0.5
    >>> torch.pow(2, x)  # x: f32[2, 3]
    2 ** x
    >>> x.pow(y.exp())  # x: pos[2, 3]; y: f32[3]
    x ** jnp.exp(y)
    >>> x.pow(y)  # x: i32[2, 3]; y: i32[3]
    power(x, y)
    """
    if power_of_integers(call.kind("input"), call.kind("exponent")):
        return call.make(f"{call.snippet('power')}({{input}}, {{exponent}})")
    return call.make("{input} ** {exponent}")


@rule(
    "torch.clamp", "Tensor.clamp", "torch.clip", "Tensor.clip", signature="input, min=None, max=None", elementwise=True
)
def clamp(call: Call) -> Expr:
    """The gradient at a bound is 1 in torch and 0.5 in JAX, unless that is told.

    >>> torch.clamp(x, -0.5, 0.5)  # x: f32[2, 3]
    clamp(x, -0.5, 0.5)
    >>> x.clamp(min=0.1)  # x: f32[2, 3]
    clamp(x, min=0.1)
    >>> x.clamp(min=0.1)  # x: f32[2, 3]; on the host
    jnp.clip(x, min=0.1)
    """
    function = _clamping(call)
    if call.has("min") and call.has("max"):
        return call.make(f"{function}({{input}}, {{min}}, {{max}})")
    bound = "min" if call.has("min") else "max"
    return call.make(f"{function}({{input}}, {bound}={{{bound}}})")


def _clamping(call: Call) -> str:
    """The function that clamps: torch's gradient at a bound where jit may take one."""
    kind = call.kind("input")
    whole = isinstance(kind, Tensor) and kind.dtype in ("int", "bool")
    return call.snippet("clamp") if call.traced and not whole else "jnp.clip"


def _one_sided(name: str) -> Rule:
    def function(call: Call) -> Expr:
        return call.make(f"{_clamping(call)}({{input}}, {name}={{{name}}})")

    doc = f"Clamps on one side.\n\n    >>> x.clamp_{name}(0.1)  # x: f32[2, 3]\n    clamp(x, {name}=0.1)\n"
    names = (f"torch.clamp_{name}", f"Tensor.clamp_{name}")
    return Rule(names, signature(f"input, {name}"), function, True, "like", doc, "elementwise")


register(_one_sided("min"))
register(_one_sided("max"))


@rule("torch.nan_to_num", "Tensor.nan_to_num", signature="input, nan=None, posinf=None, neginf=None", elementwise=True)
def nan_to_num(call: Call) -> Expr:
    """NaN becomes 0 and infinity the largest number by default in both.

    >>> torch.nan_to_num(x)  # x: f32[2, 3]
    jnp.nan_to_num(x)
    >>> torch.nan_to_num(torch.log(x), nan=1.0, neginf=-3.0)  # x: f32[2, 3]
    jnp.nan_to_num(jnp.log(x), nan=1.0, neginf=-3.0)
    """
    given = {name: call.node(name) for name in ("nan", "posinf", "neginf") if call.has(name)}
    return nodes.call("jnp.nan_to_num", call.node("input"), **given)


@rule("torch.round", "Tensor.round", signature="input, *, decimals=0", elementwise=True)
def rounded(call: Call) -> Expr:
    """Halves to the even neighbour in both.

    >>> torch.round(x)  # x: f32[2, 3]
    jnp.round(x)
    >>> torch.round(x, decimals=1)  # x: f32[2, 3]
    jnp.round(x, decimals=1)
    """
    return nodes.call("jnp.round", call.node("input"), **call.given("decimals"))


@rule(
    "torch.logit", "Tensor.logit", "torch.special.logit", signature="input, eps=None", elementwise=True, dtype="float"
)
def logit(call: Call) -> Expr:
    """With eps, clamps to [eps, 1 - eps] first.

    >>> torch.logit(x)  # x: unit[2, 3]
    jax.scipy.special.logit(x)
    >>> torch.logit(x, eps=1e-3)  # x: unit[2, 3]
    jax.scipy.special.logit(jnp.clip(x, 1e-3, 1 - 1e-3))
    """
    clipped = "jnp.clip({input}, {eps}, 1 - {eps})" if call.has("eps") else "{input}"
    return call.make(f"jax.scipy.special.logit({clipped})")
