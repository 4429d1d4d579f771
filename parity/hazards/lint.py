"""Where a JAX program does what a hazard is about: a look at its calls, by name."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Found = Iterator[tuple[int, str]]


@dataclass(frozen=True)
class Call:
    """`name` is the last part of what is called, `dotted` the whole as written."""

    node: ast.Call

    @property
    def dotted(self) -> str:
        return ast.unparse(self.node.func)

    @property
    def name(self) -> str:
        return self.dotted.rpartition(".")[2]

    def keyword(self, name: str) -> ast.expr | None:
        return next((keyword.value for keyword in self.node.keywords if keyword.arg == name), None)


def looked_at(text: str) -> dict[str, list[tuple[int, str]]]:
    """For each hazard that can be seen in a source, the lines and what stands there. Raises SyntaxError."""
    tree = ast.parse(text)
    calls = sorted((Call(node) for node in ast.walk(tree) if isinstance(node, ast.Call)), key=_place)
    lines = text.splitlines()
    return {
        name: [(call.node.lineno, lines[call.node.lineno - 1].strip()) for call in calls if test(call, text)]
        for name, test in LOOKED_FOR.items()
    }


def _place(call: Call) -> tuple[int, int]:
    return call.node.lineno, call.node.col_offset


def _literal(value: ast.expr | None) -> object:
    return value.value if isinstance(value, ast.Constant) else None


def _approximate_gelu(call: Call, text: str) -> bool:
    return call.name == "gelu" and _literal(call.keyword("approximate")) is not False and len(call.node.args) < 2


def _default_epsilon(call: Call, text: str) -> bool:
    return call.name in ("LayerNorm", "GroupNorm") and call.keyword("epsilon") is None


def _fast_variance(call: Call, text: str) -> bool:
    norms = ("LayerNorm", "GroupNorm", "InstanceNorm", "BatchNorm")
    return call.dotted in (f"nn.{norm}" for norm in norms) and _literal(call.keyword("use_fast_variance")) is not False


def _same(call: Call, text: str) -> bool:
    padding = call.keyword("padding")
    strides = call.keyword("strides") or call.keyword("window_strides")
    strided = strides is not None and any(
        isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 1 for node in ast.walk(strides)
    )
    if call.name in ("Conv", "max_pool", "avg_pool"):
        default = "SAME" if call.name == "Conv" else "VALID"
        return strided and (default if padding is None else _literal(padding)) == "SAME"
    return call.name.startswith("conv") and any(_literal(argument) == "SAME" for argument in call.node.args)


def _schedule(call: Call, text: str) -> bool:
    return call.dotted.startswith("optax.") and "schedule" in call.name


def _unsafe_root(call: Call, text: str) -> bool:
    return call.name == "where" and len(call.node.args) == 3 and any(
        isinstance(node, ast.Call) and Call(node).name in ("sqrt", "log", "norm", "arccos", "arcsin")
        for argument in call.node.args[1:]
        for node in ast.walk(argument)
    )  # fmt: skip


LOOKED_FOR: dict[str, Callable[[Call, str], bool]] = {
    "dropped token": lambda call, text: call.name in ("top_k", "approx_max_k") and "bfloat16" in text,
    "approximate top-k": lambda call, text: call.name in ("approx_max_k", "approx_min_k"),
    "gradients at ties": lambda call, text: call.dotted.endswith("linalg.norm"),
    "gradient of an unused branch": _unsafe_root,
    "GELU's default": _approximate_gelu,
    "default epsilons": _default_epsilon,
    "fast variance": _fast_variance,
    "SAME padding": _same,
    "schedules in float32": _schedule,
    "gradient clipping": lambda call, text: call.dotted == "optax.clip_by_global_norm",
}
