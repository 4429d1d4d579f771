"""Options of a command line that argparse makes lists of: `--sizes 784 256`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from migrate.syntax import nodes, usage


def list_options(modules: Iterable[cst.Module]) -> frozenset[str]:
    """The names of those, in all files together, as attributes of what `parse_args` returns."""
    return frozenset(
        _name(call)
        for module in modules
        for call in usage.calls(module)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument" and _makes_list(call)
    )


def _makes_list(call: cst.Call) -> bool:
    """Whether an option takes several values, or is a list where the command line does not give it."""
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    several = "nargs" in given and nodes.literal(given["nargs"]) not in ("?", None)
    return several or isinstance(given.get("default"), cst.List) or nodes.code(given.get("type", call)) == "list"


def _name(call: cst.Call) -> str:
    given = {arg.keyword.value: nodes.literal(arg.value) for arg in call.args if arg.keyword is not None}
    flags = [nodes.literal(arg.value) for arg in call.args if arg.keyword is None]
    return str(given["dest"]) if "dest" in given else option_name([flag for flag in flags if isinstance(flag, str)])


def option_name(flags: Sequence[str]) -> str:
    """The attribute that holds an option: `hidden_sizes` of `-s` and `--hidden-sizes`."""
    longest = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
    return longest.lstrip("-").replace("-", "_")
