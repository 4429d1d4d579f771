"""torch.special, and the special functions that torch has under two names."""

from migrate.rules.rule import Call, Rule, as_float, register, rule, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

# names: (target, example)
_OF_ONE: dict[str, tuple[str, str]] = {
    "torch.special.erf": ("jax.scipy.special.erf({input})", "f32[2, 3]"),
    "torch.special.erfc": ("jax.scipy.special.erfc({input})", "f32[2, 3]"),
    "torch.special.erfinv": ("jax.scipy.special.erfinv({input})", "unit[2, 3]"),
    "torch.special.expm1": ("jnp.expm1({input})", "f32[2, 3]"),
    "torch.special.exp2": ("jnp.exp2({input})", "f32[2, 3]"),
    "torch.special.log1p": ("jnp.log1p({input})", "pos[2, 3]"),
    "torch.special.sinc torch.sinc Tensor.sinc": ("jnp.sinc({input})", "f32[2, 3]"),
    "torch.special.expit": ("jax.scipy.special.expit({input})", "f32[2, 3]"),
    "torch.special.entr": ("jax.scipy.special.entr({input})", "pos[2, 3]"),
    "torch.special.gammaln": ("jax.scipy.special.gammaln({input})", "pos[2, 3]"),
    "torch.special.ndtr": ("jax.scipy.stats.norm.cdf({input})", "f32[2, 3]"),
    "torch.special.ndtri": ("jax.scipy.special.ndtri({input})", "unit[2, 3]"),
    "torch.special.log_ndtr": ("jax.scipy.stats.norm.logcdf({input})", "f32[2, 3]"),
    "torch.special.i0e": ("jax.scipy.special.i0e({input})", "f32[2, 3]"),
    "torch.special.i1": ("jax.scipy.special.i1({input})", "f32[2, 3]"),
    "torch.special.i1e": ("jax.scipy.special.i1e({input})", "f32[2, 3]"),
}  # fmt: skip
_OF_TWO: dict[str, tuple[str, str]] = {
    "torch.special.xlogy": ("jax.scipy.special.xlogy({input}, {other})", "pos[2, 3]"),
    "torch.special.xlog1py": ("jax.scipy.special.xlog1py({input}, {other})", "pos[2, 3]"),
    "torch.special.gammainc torch.igamma Tensor.igamma": (
        "jax.scipy.special.gammainc({input}, {other})", "const[2, 3]",
    ),
    "torch.special.gammaincc torch.igammac Tensor.igammac": (
        "jax.scipy.special.gammaincc({input}, {other})", "const[2, 3]",
    ),
}  # fmt: skip


def _special(names: str, template: str, parameters: str, inputs: str) -> Rule:
    def function(call: Call) -> Expr:
        first = as_float(call, "input") if names == "torch.special.ndtri" else call.node("input")
        return call.make(template, input=first)

    name, arguments = names.split()[0], parameters.replace("input", "x").replace("other", "y")
    shown = template.format(input="x", other="y")
    doc = f"The same in JAX.\n\n    >>> {name}({arguments})  # {inputs}\n    {shown}\n"
    return Rule(tuple(names.split()), signature(parameters), function, False, "float", doc, "special")


for _names, (_template, _example) in _OF_ONE.items():
    register(_special(_names, _template, "input", f"x: {_example}"))
for _names, (_template, _example) in _OF_TWO.items():
    register(_special(_names, _template, "input, other", f"x: {_example}; y: {_example}"))


@rule(
    "torch.special.digamma", "torch.special.psi", "torch.digamma", "Tensor.digamma",
    signature="input", elementwise=True, dtype="float",
)  # fmt: skip
def digamma(call: Call) -> Expr:
    """Below 0 JAX's derivative is not exact, at 0 its value is another one, unless that is told.

    >>> torch.digamma(x)  # x: f32[2, 3]
    digamma(x)
    """
    return nodes.call(call.snippet("digamma"), call.node("input"))


@rule("torch.special.i0", "torch.i0", "Tensor.i0", signature="input", elementwise=True, dtype="float")
def i0(call: Call) -> Expr:
    """The gradient at exactly 0 is 0 in torch and 1 in JAX, unless that is told.

    >>> torch.special.i0(x)  # x: f32[2, 3]
    jax.scipy.special.i0(absolute(x))
    >>> torch.special.i0(x)  # x: f32[2, 3]; on the host
    jax.scipy.special.i0(x)
    """
    x = call.node("input")
    return nodes.call("jax.scipy.special.i0", nodes.call(call.snippet("absolute"), x) if call.traced else x)


def _polygamma(name: str) -> Rule:
    def function(call: Call) -> Expr:
        if call.literal("n") == 0:
            return nodes.call(call.snippet("digamma"), call.node("input"))
        return nodes.call(call.snippet("polygamma"), call.node("n"), call.node("input"))

    shown = f"    >>> {name}(1, x)  # x: pos[2, 3]\n    polygamma(1, x)\n"
    doc = f"The order comes first. Below 0 JAX's is not exact, unless that is told.\n\n{shown}"
    return Rule((name, "torch.polygamma"), signature("n, input"), function, False, "float", doc, "special")


register(_polygamma("torch.special.polygamma"))
