"""The optax chain that matches a torch optimizer: as the caller writes it, or as a rewrite of the optimizer has it."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any, NoReturn

import numpy as np

from migrate.saved_files import Chain as Written
from weight_port.errors import fail
from weight_port.optimizer_state import Group

AUTO = "auto"
_UNKNOWN = "unknown"
# What a chain of a manifest may use. Nothing in it reads, writes or imports.
_HARMLESS = {
    one.__name__: one
    for one in (abs, all, any, bool, dict, float, int, isinstance, len, list, max, min, round, set, str, sum, tuple)
}
_OF_OPTAX = ("optax", "optax.contrib", "optax.schedules", "optax.transforms", "optax.tree_utils")
_OF_JAX = {"jax.tree", "jax.tree_util", "jax.numpy", "jax.Array", "jnp.float32", "jnp.bfloat16", "jnp.asarray"} | {
    f"{module}.{name}"
    for module in ("jax.tree", "jax.tree_util")
    for name in ("map", "map_with_path", "leaves", "keystr", "tree_map", "tree_map_with_path")
}
_NOT_HYPERPARAMETERS = ("params", "param_names", "initial_lr", "lr")


@dataclass(frozen=True)
class Chain:
    """An optax transformation and how it is written."""

    text: str
    transformation: Any


def chain_of(text: str | Sequence[Written], groups: Sequence[Group], kinds: Collection[str] = ()) -> Chain:
    """The chain that ``text`` constructs, or ("auto") that of torch's hyperparameters; of those that a script makes,
    that of the class that these are of. Raises PortError.

    kinds: what torch keeps for a parameter ("exp_avg"), which tells Adamax from others.
    """
    if not isinstance(text, str):
        return _of_script(text, groups, kinds)
    if text == AUTO:
        return _rewritten(groups, kinds)
    import jax
    import jax.numpy as jnp
    import optax

    try:
        made = eval(text, {"optax": optax, "jax": jax, "jnp": jnp})
    except Exception as error:  # the caller's own program
        fail("WPT009", f"{text!r} constructs no optimizer: {type(error).__name__}: {error}")
    if not isinstance(made, optax.GradientTransformation):
        fail("WPT009", f"{text!r} is a {type(made).__name__}, not an optax transformation",
             "Write it as the script constructs it: optax.adamw(1e-3).")  # fmt: skip
    return Chain(text, made)


class _Number(float):
    """Stands for a number of a script that is not known here. It decides nothing."""

    def undecided(self, *_: object) -> NoReturn:
        raise ValueError("a value of the script decides what is made")

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = undecided  # type: ignore[assignment]
    __hash__ = float.__hash__


def is_unknown(value: np.ndarray) -> bool:
    """Whether an array of a state was made of such numbers."""
    return value.dtype.kind == "f" and bool(np.isnan(value).any())


class _Known(ast.NodeTransformer):
    """An expression of a script with `unknown` for all that is made of names which mean nothing here."""

    def __init__(self, known: Collection[str]) -> None:
        self.known = set(known)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        given = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        return ast.Lambda(node.args, _Known(self.known | given).visit(node.body))

    def _comprehension(self, node: Any) -> ast.AST:
        names = {name.id for one in node.generators for name in ast.walk(one.target) if isinstance(name, ast.Name)}
        return super(_Known, _Known(self.known | names)).generic_visit(node)

    visit_DictComp = visit_ListComp = visit_SetComp = visit_GeneratorExp = _comprehension

    def visit(self, node: ast.AST) -> Any:
        root = node
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name) and root.id not in self.known:
            return ast.Name(_UNKNOWN, ast.Load())
        if isinstance(node, ast.Attribute) and not _is_harmless(node, root):
            raise ValueError(f"{ast.unparse(node)} is no part of a chain")
        return super().visit(node)


def _is_harmless(node: ast.Attribute, root: ast.AST) -> bool:
    """Whether a manifest, which may come from anybody, may name an attribute: what optax makes chains of, maps over
    trees, and what is asked of values, such as `path[-1].key`."""
    if node.attr.startswith("_"):
        return False
    if not isinstance(root, ast.Name) or root.id not in ("jax", "jnp", "optax"):
        return True
    path = ast.unparse(node)
    return path in _OF_JAX or (root.id == "optax" and path.rpartition(".")[0] in _OF_OPTAX)


def _of_script(chains: Sequence[Written], groups: Sequence[Group], kinds: Collection[str]) -> Chain:
    """The chain of a rewritten script, with the transformations that it brings along."""
    if len(chains) > 1:
        wanted = _class(_hyperparameters(groups)[0], kinds)
        chains = [chain for chain in chains if chain.torch == wanted]
    if len(chains) != 1:
        fail("WPT122", f"{len(chains)} of the optimizers that the script makes may have kept this state",
             "State the chain by --optimizer.")  # fmt: skip
    import jax
    import jax.numpy as jnp
    import optax

    text = chains[0].optax
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        fail("WPT122", f"{text} is no expression: {error.msg}", "State the chain by --optimizer.")
    snippets = {file.name.removesuffix(".py") for file in files("migrate.snippets").iterdir()}
    brought = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & snippets
    scope = {"jax": jax, "jnp": jnp, "optax": optax, _UNKNOWN: _Number("nan"), "__builtins__": _HARMLESS}
    scope |= {name: getattr(import_module(f"migrate.snippets.{name}"), name) for name in brought}
    try:
        known = ast.fix_missing_locations(_Known({*scope, *_HARMLESS}).visit(tree))
        made = eval(compile(known, "<chain>", "eval"), scope)
    except Exception as error:
        fail("WPT122", f"{text} cannot be made here: {error}", "State the chain by --optimizer.")
    if not isinstance(made, optax.GradientTransformation):
        fail("WPT122", f"{text} is not made of optax and of what a rewritten script brings along",
             "State the chain by --optimizer.")  # fmt: skip
    return Chain(text, made)


def _rewritten(groups: Sequence[Group], kinds: Collection[str]) -> Chain:
    """What `migrate rewrite` makes of the torch optimizer, so that a rewritten script restores the state as it is."""
    from migrate.files.source import parse
    from migrate.pipeline import convert

    constructor = _constructor(groups, kinds)
    script = f"import torch\nmodel = torch.nn.Linear(1, 1)\noptimizer = {constructor}\n"
    if any("initial_lr" in group.settings for group in groups):
        # a rate that a scheduler sets is a part of the state
        script += (
            "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"
            "for x in [torch.ones(1, 1)]:\n"
            "    loss = model(x).sum()\n"
            "    optimizer.zero_grad()\n"
            "    loss.backward()\n"
            "    optimizer.step()\n"
            "    scheduler.step()\n"
        )
    tree = ast.parse(convert(parse("optimizer.py", script)).text)
    imports = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    kept = [node for node in tree.body if isinstance(node, imports) or _assigns_optimizer(node)]
    found = [node for node in kept if isinstance(node, ast.Assign)]
    if not found:
        fail("WPT121", f"no chain of optax is known for {constructor}", "Write the chain that matches in its place.")
    scope: dict[str, Any] = {}
    exec(compile(ast.Module(kept, []), "<optimizer>", "exec"), scope)
    return Chain(ast.unparse(found[0].value), scope["optimizer"])


def _assigns_optimizer(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "optimizer"


def _constructor(groups: Sequence[Group], kinds: Collection[str]) -> str:
    """The call of the torch optimizer's class. Its name is not in a state dict; its hyperparameters tell it."""
    from migrate.optimizers import OPTIMIZERS

    first, *others = _hyperparameters(groups)
    rates = {float(group.settings["lr"]) for group in groups}
    if any(other != first for other in others) or len(rates) > 1:
        fail("WPT121", f"the {len(groups)} groups of the optimizer have hyperparameters of their own",
             "Write the chain in place of auto, such as optax.multi_transform({...}, labels).")  # fmt: skip
    entry = OPTIMIZERS[_class(first, kinds)]
    known = _parameters(entry.signature)
    rate = next((float(g.settings["initial_lr"]) for g in groups if "initial_lr" in g.settings), rates.pop())
    written = ", ".join(f"{name}={value!r}" for name, value in ({"lr": rate} | _plain(first)).items() if name in known)
    return f"{entry.torch}(model.parameters(), {written})"


def _hyperparameters(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Those of each group, but for its rate."""
    return [{k: v for k, v in group.settings.items() if k not in _NOT_HYPERPARAMETERS} for group in groups]


def _class(settings: Mapping[str, Any], kinds: Collection[str]) -> str:
    """The optimizer with these hyperparameters: the one that has the fewest others. Raises PortError."""
    from migrate.optimizers import OPTIMIZERS

    keys = set(settings)
    if "amsgrad" in keys:  # Adam's and AdamW's: there it says which of the two it is
        keys.discard("decoupled_weight_decay")
    more: dict[str, int] = {}
    for name, entry in OPTIMIZERS.items():
        averages = name != "torch.optim.Adamax" or "exp_inf" in kinds or not kinds
        if not entry.evaluates and averages and keys <= (known := _parameters(entry.signature)):
            more[name] = len(known - keys)
    fits = [name for name, count in more.items() if count == min(more.values())]
    if "decoupled_weight_decay" in settings and set(fits) == {"torch.optim.Adam", "torch.optim.AdamW"}:
        fits = ["torch.optim.AdamW" if settings["decoupled_weight_decay"] else "torch.optim.Adam"]
    if len(fits) != 1:
        what = f"could be {' or '.join(fits)}" if fits else "is of no class that is known"
        fail("WPT121", f"the optimizer with the hyperparameters {', '.join(settings)} {what}",
             "Write the chain that matches in place of auto.")  # fmt: skip
    return fits[0]


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers among the hyperparameters, which become a program; None and what only says how torch runs a step are
    left out. Raises PortError for anything else: a checkpoint may come from anybody."""
    from migrate.optimizers import RUNNING

    kept = {name: value for name, value in settings.items() if value is not None and name not in RUNNING}
    for name, value in kept.items():
        numbers = value if isinstance(value, (tuple, list)) else (value,)
        if not all(isinstance(n, (bool, int, float)) and math.isfinite(n) for n in numbers):
            fail("WPT121", f"the optimizer's {name} is not a number", "Write the chain that matches in place of auto.")
    return kept


def _parameters(signature: str) -> set[str]:
    """
    >>> sorted(_parameters("params, lr=2e-3, betas=(0.9, 0.999), *, foreach=None"))
    ['betas', 'foreach', 'lr', 'params']
    """
    return {argument.arg for argument in _arguments(signature)}


def _arguments(signature: str) -> list[ast.arg]:
    definition = ast.parse(f"def f({signature}): pass").body[0]
    assert isinstance(definition, ast.FunctionDef)
    return [*definition.args.args, *definition.args.kwonlyargs]
