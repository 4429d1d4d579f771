"""Find the state dict in what was saved: training scripts wrap it in dicts, and sometimes save whole modules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from weight_port.dtypes import DTYPES, is_float
from weight_port.errors import SeveralStateDicts, fail
from weight_port.names import Lookup
from weight_port.pickles import Opaque, TensorRef

DEPTH = 5  # containers within containers that are searched
WRAPPERS = (
    "_orig_mod.",
    "_fsdp_wrapped_module.",
    "_checkpoint_wrapped_module.",
)  # torch's own names
PARALLEL = "module."  # put before every key by DataParallel and its like
COUNT = "n_averaged"
HOLDER = "model."  # put before every key by Lightning and other modules that hold the model
MODULES = 100_000  # of one model; more are there only where modules hold each other


@dataclass(frozen=True)
class StateDict:
    """Tensors by key, what stands under the other keys, and where in the file it was found ("" the top)."""

    tensors: dict[str, TensorRef]
    opaque: dict[str, str]
    path: str = ""


def choose(saved: Any, key: str | None, where: str) -> StateDict:
    """The one state dict in ``saved``, or that under ``key``.

    Raises PortError WPT002 where none is there, WPT004 with a list where it is not clear which.
    """
    found = {path: dict(node) for path, node in _search(saved)}
    if not any(map(_is_weights, found.values())):
        found = {path: node for path, node in found.items() if _tensors(node)}
    else:
        found = {path: node for path, node in found.items() if _is_weights(node)}
    if not found:
        fail("WPT002", f"{where} holds no state dict (no dict of tensors)", f"At its top is {_contents(saved)}.")
    if key is None and len(found) == 1:
        return _state_dict(*next(iter(found.items())))
    listed = "".join(f"\n      --key {path or repr('')}: {_count(node)}" for path, node in found.items())
    if key is None:
        raise SeveralStateDicts(
            f"{where} holds {len(found)} state dicts:{listed}", "Choose one by --key.", tuple(found)
        )
    if key not in found:
        fail("WPT004", f"{where} has no state dict under {key!r}; it holds:{listed}")
    return _state_dict(key, found[key])


def _search(node: Any, path: str = "", depth: int = 0, seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Every mapping that directly holds tensors, innermost where they nest; optimizer states are passed over.

    Each object is looked at once: there may be exponentially many ways to it.
    """
    seen = set() if seen is None else seen
    if not isinstance(node, Opaque | list | tuple | Mapping) or depth > DEPTH or id(node) in seen:
        return
    seen.add(id(node))
    children = _children(node)
    if children is None or {"state", "param_groups"} <= children.keys():
        return
    inner = [
        found
        for name, child in children.items()
        for found in _search(child, f"{path}.{name}" if path else str(name), depth + 1, seen)
    ]
    yield from inner
    # a counter or a random state beside the state dict does not make its wrapper one
    if _tensors(children) and (_is_weights(children) or not any(_is_weights(node) for _, node in inner)):
        yield path, children


def _children(node: Any) -> Mapping[Any, Any] | None:
    if isinstance(node, Opaque):
        module = _module_state(node)
        return module if module is not None else node.items
    if isinstance(node, (list, tuple)):
        return {i: child for i, child in enumerate(node) if not isinstance(child, TensorRef)}
    return node if isinstance(node, Mapping) else None


def _module_state(node: Opaque) -> dict[str, Any] | None:
    """The state dict of a module that was pickled whole, put together from its attributes; None for other objects."""
    if not (isinstance(node.state, Mapping) and {"_parameters", "_modules"} <= node.state.keys()):
        return None
    state: dict[str, Any] = {}
    pending: list[tuple[str, Any, int]] = [("", node, 0)]
    for _ in range(MODULES):
        if not pending:
            break
        prefix, module, depth = pending.pop()
        inside = module.state if isinstance(module, Opaque) and isinstance(module.state, Mapping) else {}
        passing = inside.get("_non_persistent_buffers_set") or ()
        for group in ("_parameters", "_buffers"):
            members = inside.get(group)
            for name, value in members.items() if isinstance(members, Mapping) else ():
                if value is not None and name not in passing:
                    state[f"{prefix}{name}"] = value
        members = inside.get("_modules")
        if isinstance(members, Mapping) and depth < 64:  # modules do not nest that deep; a cycle would
            pending += [(f"{prefix}{name}.", child, depth + 1) for name, child in reversed(list(members.items()))]
    return state


def _tensors(node: Mapping[Any, Any]) -> dict[str, TensorRef]:
    return {name: value for name, value in node.items() if isinstance(name, str) and isinstance(value, TensorRef)}


def _is_weights(node: Mapping[Any, Any]) -> bool:
    """Best scores, as Lightning's callbacks keep them, have no axes."""
    return any(is_float(DTYPES[tensor.dtype]) and tensor.shape for tensor in _tensors(node).values())


def _state_dict(path: str, node: Mapping[Any, Any]) -> StateDict:
    tensors = _tensors(node)
    return StateDict(tensors, {str(n): _describe(v) for n, v in node.items() if n not in tensors}, path)


def _count(node: Mapping[Any, Any]) -> str:
    tensors = _tensors(node)
    return f"{len(tensors)} tensor{'s' * (len(tensors) != 1)}, first {next(iter(tensors))}"


def _describe(value: Any) -> str:
    if isinstance(value, TensorRef):
        return "a tensor"
    return f"an object of {value.origin}" if isinstance(value, Opaque) else f"a {type(value).__name__}"


def _contents(value: Any) -> str:
    """What is there instead of a state dict, one level deep."""
    if isinstance(value, Mapping) and {"state", "param_groups"} <= value.keys():
        return "the state of an optimizer, which --optimizer-from takes"
    if not isinstance(value, Mapping | list | tuple):
        return _describe(value)
    parts = value.items() if isinstance(value, Mapping) else enumerate(value)
    listed = [f"{name!r} is {_describe(part)}" for name, part in islice(parts, 5)]
    return f"{_describe(value)} of {len(value)}" + (f": {', '.join(listed)}" if listed else "")


def averages_count(keys: Collection[str]) -> str | None:
    """The key under which torch's AveragedModel counts what it averaged, beside the model's own under ``module.``

    >>> averages_count(["n_averaged", "module.fc.weight"])
    'n_averaged'
    """
    others = [key for key in keys if key != COUNT]
    return COUNT if len(others) < len(keys) and all(key.startswith(PARALLEL) for key in others) else None


def common_prefixes(keys: Iterable[str], expected: Iterable[str] = ()) -> tuple[str, ...]:
    """What wrappers of torch put before and into the keys, in the order in which `strip` takes it off.

    ``module.`` goes only where every key has it and no expected name does: a model may have an attribute of that name.
    ``model.`` stays without names to expect, and goes where no key without it is expected: a module that holds the
    model may have weights of its own.

    >>> common_prefixes(["module._orig_mod.fc.weight", "module._orig_mod.fc.bias"])
    ('_orig_mod.', 'module.')
    """
    keys, expected = tuple(keys), tuple(expected)
    taken = tuple(wrapper for wrapper in WRAPPERS if _holds(keys, wrapper) and not _holds(expected, wrapper))
    names = [strip(key, taken) for key in keys]
    if not any(name.startswith(PARALLEL) for name in expected):
        while names and all(name.startswith(PARALLEL) for name in names):
            names = [name.removeprefix(PARALLEL) for name in names]
            taken += (PARALLEL,)
    wanted = Lookup((name, name) for name in expected)
    own = [name for name in names if not name.startswith(HOLDER)]
    held = bool(expected) and len(own) < len(names) and not any(any(wanted.find(name)) for name in own)
    if held and not any(name.startswith(HOLDER) for name in expected):
        names = [name.removeprefix(HOLDER) for name in names]
        taken += (HOLDER,)
    # where two keys would become one they are different weights, and keep their names
    return taken if len(set(names)) == len(names) else ()


def strip(key: str, prefixes: Iterable[str]) -> str:
    """A key without the prefixes that `common_prefixes` found.

    >>> strip("module.encoder._orig_mod.weight", ("_orig_mod.", "module."))
    'encoder.weight'
    """
    for prefix in prefixes:
        key = key.removeprefix(prefix) if prefix in (PARALLEL, HOLDER) else f".{key}".replace(f".{prefix}", ".")[1:]
    return key


def _holds(names: Iterable[str], wrapper: str) -> bool:
    return any(f".{wrapper}" in f".{name}" for name in names)
