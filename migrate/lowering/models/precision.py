"""Mixed precision: layers compute in the dtype of the `autocast` around them, and weights stay float32.

A model that is called under autocast has a field `dtype`, as `training` tells its mode; what torch keeps in float32
under autocast is computed in float32. float16 becomes bfloat16, which has the exponents of float32: gradients do not
vanish, and a gradient scaler has nothing to do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Accelerator, Autocast, Number, Plain, Scaler, Tensor
from migrate.lowering.expressions.arguments import Arguments
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

# torch's own list for CUDA, as far as rules serve it.
_FULL_PRECISION = frozenset(
    {
        *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "kl_div", "poisson_nll_loss"),
        *("binary_cross_entropy_with_logits", "cosine_embedding_loss", "soft_margin_loss", "triplet_margin_loss"),
        *("softmax", "log_softmax", "softmin", "softplus", "layer_norm", "group_norm", "normalize"),
        *("cosine_similarity", "exp", "expm1", "log", "log10", "log1p", "log2", "pow", "rsqrt", "reciprocal"),
        *("sum", "prod", "cumsum", "cumprod", "norm", "dist", "cdist", "acos", "asin", "cosh", "sinh", "tan", "erfinv"),
    }
)

# Constructors of Flax layers that autocast runs in the lower precision.
CASTING = ("nn.Dense", "nn.Conv", "nn.ConvTranspose", "nn.ConvLocal", "nn.Einsum")

_HALF = ("jnp.float16", "jnp.bfloat16")


class Precision(Arguments):
    """What autocast says, and where it counts."""

    def torch_autocast(self, node: cst.Call) -> Value:
        """The dtype in which layers compute, or None: `torch.autocast("cuda")` is off on a CPU."""
        return self._autocast(node, ["device_type", "dtype", "enabled", "cache_enabled"], "")

    torch_amp_autocast = torch_autocast

    def torch_cuda_amp_autocast(self, node: cst.Call) -> Value:
        return self._autocast(node, ["enabled", "dtype", "cache_enabled"], "cuda")

    def torch_cpu_amp_autocast(self, node: cst.Call) -> Value:
        return self._autocast(node, ["enabled", "dtype", "cache_enabled"], "cpu")

    def torch_contextlib_nullcontext(self, node: cst.Call) -> Value:
        """A context that changes nothing."""
        if node.args:
            raise Unsupported("MIG302", "nullcontext with a result")
        return Value(nodes.name("None"), Autocast())

    def torch_cuda_amp_GradScaler(self, node: cst.Call) -> Value:
        """A gradient scaler disappears."""
        for arg in node.args:
            self.expr(arg.value)
        return Value(node, Scaler())

    torch_amp_GradScaler = torch_cuda_amp_GradScaler

    def scaler_method(self, node: cst.Call, method: str) -> Value:
        """What is asked of a gradient scaler: it scales by one."""
        if method == "scale" and len(node.args) == 1:
            return self.expr(node.args[0].value)
        if method == "get_scale":
            return Value(cst.Float("1.0"), Number())
        if method == "is_enabled":
            return Value(nodes.name("False"), Number())
        if method == "state_dict":
            return Value(cst.Dict([]), Plain("dict"))
        raise Unsupported("MIG301", f"GradScaler.{method}")

    def _autocast(self, node: cst.Call, order: list[str], device: str) -> Value:
        given: dict[str, Expr] = {}
        for number, arg in enumerate(node.args):
            if arg.star or (arg.keyword is None and number >= len(order)):
                raise Unsupported("MIG302", f"{nodes.code(node)}: its arguments cannot be followed")
            given[arg.keyword.value if arg.keyword else order[number]] = arg.value
        where = nodes.literal(given["device_type"]) if "device_type" in given else device
        device = where if isinstance(where, str) else device
        if "device_type" in given:
            self.expr(given["device_type"])
        enabled = given.get("enabled")
        if enabled is not None and nodes.is_literal(enabled, False):
            return Value(nodes.name("None"), Autocast(off=True))
        dtype = self.node(given["dtype"]) if "dtype" in given else nodes.expression("jnp.bfloat16")
        text = nodes.code(dtype)
        if text == "jnp.float16" or ("dtype" not in given and device.startswith("cuda")):
            self.unit.report(Unsupported("MIG502", "float16 under autocast is bfloat16 here"), node)
            dtype = nodes.expression("jnp.bfloat16")
        elif text not in _HALF:
            self.unit.report(Unsupported("MIG502", f"nothing scales the loss where {text} is float16"), node)
        tests: list[Expr] = []
        if enabled is not None and not nodes.is_literal(enabled, True):
            tests.append(self.node(enabled))
        if device.startswith("cuda"):
            tests.append(nodes.expression('jax.default_backend() != "cpu"'))
        if not tests:
            return Value(dtype, Autocast())
        test = tests[0] if len(tests) == 1 else nodes.expression("{a} and {b}", a=tests[0], b=tests[1])
        return Value(nodes.expression("{dtype} if {test} else None", dtype=dtype, test=test), Autocast())

    # -- where it counts ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def under(self, value: Value | None) -> Iterator[None]:
        """Inside, layers compute in the dtype that an autocast gave; `nullcontext()` leaves it as it was."""
        before = self.precision
        if value is not None and (not nodes.is_literal(value.node, None) or Autocast(off=True) == value.kind):
            self.precision = None if nodes.is_literal(value.node, None) else value.node
        try:
            yield
        finally:
            self.precision = before

    def is_neutral_context(self, node: Expr) -> bool:
        """Whether a `with` item does nothing but set a precision: then its block is no block of its own."""
        if isinstance(node, cst.Name | cst.Attribute):
            return isinstance(self.kind_of(node), Autocast)
        if isinstance(node, cst.IfExp):
            return self.is_neutral_context(node.body) and self.is_neutral_context(node.orelse)
        if not isinstance(node, cst.Call):
            return False
        if isinstance(node.func, cst.Attribute) and isinstance(self.kind_of(node.func.value), Accelerator):
            return node.func.attr.value in ("accumulate", "autocast")
        name = self.torch_name(node.func) or ""
        return name.rpartition(".")[2] in ("autocast", "nullcontext") or self.is_contextlib(node)

    def is_contextlib(self, node: cst.Call) -> bool:
        """`contextlib.nullcontext()`."""
        module = self.kind_of_name("contextlib")
        return nodes.dotted(node.func) == "contextlib.nullcontext" and module == Plain("module")

    def lowered_class(self, cls: str) -> None:
        """Notes that a class is called under autocast: it and its submodules get a field `dtype`."""
        for name in self.script.with_submodules(cls):
            facts = self.script.classes[name]
            if "dtype" in facts.fields or "dtype" in facts.attributes:
                raise Unsupported("MIG302", f"autocast around {name}, which has a dtype of its own")
            if facts.inline:
                raise Unsupported("MIG302", "autocast around an nn.Sequential that no class holds")
        self.script.half |= self.script.with_submodules(cls)

    def constants_of_precision(self) -> set[str]:
        """The names that the precision in force is written with: jit needs to know them."""
        if self.precision is None:
            return set()
        return set(usage.loads(self.precision)) | set(usage.attributes(self.precision))

    def at_full_precision(self, api: str, value: Value) -> Value:
        """The first operand of what torch computes in float32 even under autocast."""
        short = api.rpartition(".")[2]
        if not self._is_lowered() or short not in _FULL_PRECISION:
            return value
        if not isinstance(value.kind, Tensor) or value.kind.dtype in ("int", "bool"):
            return value
        node = nodes.expression("{x}.astype(jnp.float32)", x=nodes.parenthesized(value.node))
        return Value(node, value.kind, value.layout)

    def _is_lowered(self) -> bool:
        if self.context in ("forward", "setup"):
            return self.cls in self.script.half
        return self.precision is not None
