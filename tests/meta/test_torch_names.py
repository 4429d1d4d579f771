"""What the registries say of torch is so: names resolve, and parameters have torch's names, order and defaults."""

from __future__ import annotations

import ast
import functools
import inspect
import typing
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional
import torch.optim.lr_scheduler
import torch_geometric.nn

from migrate.apis import public_name
from migrate.layers.table import TABLE
from migrate.machine import NO_OPS, WRAPPERS
from migrate.optimizers import INITIALIZERS, LOSSES, OPTIMIZERS, SCHEDULES
from migrate.rules.catalogue import RULES
from migrate.rules.creation import DTYPES
from migrate.rules.rule import Parameter, signature
from migrate.syntax import nodes

# Of our own making, or passed on by Python code that takes anything.
NOT_IN_A_SIGNATURE = {"out", "generator", "dtype", "layout", "device", "requires_grad", "pin_memory", "memory_format"}

# Classes made in C++, and *args of which the first is bound.
NO_SIGNATURE = {
    "torch.einsum", "torch.finfo", "torch.iinfo", "torch.Size", "Tensor.cfloat", "Tensor.cdouble", "Tensor.new",
    "torch.linalg.multi_dot", "torch.spmm", "torch.sparse.mm",
    # the stubs have the argument under two names, the documentation under one
    *(f"{owner}.{kind}split" for owner in ("torch", "Tensor") for kind in ("h", "v", "d", "tensor_")),
}  # fmt: skip


def resolve(name: str) -> Any:
    """The torch object of a qualified name; AttributeError where there is none."""
    first, *parts = name.split(".")
    return functools.reduce(
        getattr, parts, {"torch": torch, "Tensor": torch.Tensor, "torch_geometric": torch_geometric}[first]
    )


@pytest.mark.parametrize("name", [*RULES, *TABLE, *OPTIMIZERS, *SCHEDULES, *LOSSES, *LOSSES.values(), *DTYPES])
def test_resolves(name: str) -> None:
    assert resolve(name) is not None


def test_names_are_known_wherever_they_are_taken_from() -> None:
    """`torch.nn.modules.conv.Conv2d` is `torch.nn.Conv2d`, and what the registries list is not another name's."""
    listed = [*TABLE, *OPTIMIZERS, *SCHEDULES, *LOSSES, *WRAPPERS, "torch.utils.data.DistributedSampler"]
    assert [name for name in [*listed, *RULES, *NO_OPS] if public_name(name) != name] == []
    classes = {name: found for name in listed if isinstance(found := resolve(name), type)}
    homes = {f"{found.__module__}.{found.__qualname__}": name for name, found in classes.items()}
    assert {home: public_name(home) for home in homes} == homes


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers_resolve(name: str) -> None:
    found = getattr(torch.nn.init, name)
    check(signature(INITIALIZERS[name][0]), found)


def check(ours: tuple[Parameter, ...], function: Any, skip: int = 0) -> None:
    """Our parameters are theirs, in their order and with their defaults."""
    theirs = dict(list(inspect.signature(function).parameters.items())[skip:])
    named = [p for p in ours if not p.star]
    assert {p.name for p in named} <= set(theirs)
    keyword_only = [name for name, p in theirs.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    positional = [name for name in theirs if name not in keyword_only and not name.startswith("_")]
    assert [p.name for p in named if p.name in positional] == positional[: sum(p.name in positional for p in named)]
    for parameter in named:
        default = theirs[parameter.name].default
        if default is inspect.Parameter.empty:
            assert parameter.default is None, f"{parameter.name} has no default in torch"
        else:
            assert parameter.default is not None, f"{parameter.name} has the default {default!r} in torch"
            assert eval(nodes.code(parameter.default), {"F": torch.nn.functional}) == default, parameter.name


@pytest.mark.parametrize("name", TABLE)
def test_layer_signatures(name: str) -> None:
    made = resolve(name)
    if not isinstance(made, type):  # a function that makes a layer of another one
        check(signature(TABLE[name].signature), inspect.unwrap(made))
        return
    init = made.__init__
    written_out = typing.get_overloads(init)  # the networks whose constructor takes anything
    check(signature(TABLE[name].signature), written_out[0] if written_out else init, skip=1)


@pytest.mark.parametrize("name", [name for name, layer in TABLE.items() if layer.call != "input"])
def test_call_signatures(name: str) -> None:
    check(signature(TABLE[name].call), resolve(name).forward, skip=1)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_signatures(name: str) -> None:
    check(signature(OPTIMIZERS[name].signature), resolve(name).__init__, skip=1)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_signatures(name: str) -> None:
    check(signature("optimizer, " + SCHEDULES[name].signature), resolve(name).__init__, skip=1)


@functools.cache
def stubs() -> dict[str, list[ast.arguments]]:
    """The overloads of what torch implements in C++, from the stubs that it brings: "torch.sum", "Tensor.sum"."""
    folder = Path(torch.__file__).parent / "_C"
    found: dict[str, list[ast.arguments]] = {}
    functions = ast.parse((folder / "_VariableFunctions.pyi").read_text()).body
    classes = [s for s in ast.parse((folder / "__init__.pyi").read_text()).body if isinstance(s, ast.ClassDef)]
    methods = [s for c in classes if c.name == "TensorBase" for s in c.body]
    for prefix, statements in (("torch.", functions), ("Tensor.", methods)):
        for statement in statements:
            if isinstance(statement, ast.FunctionDef):
                found.setdefault(prefix + statement.name, []).append(statement.args)
    return found


def known_parameters(name: str) -> set[str]:
    """The names of the parameters of any overload; "self" is the "input" of a method."""
    found = set()
    for overload in stubs().get(name, []):
        arguments = [*overload.posonlyargs, *overload.args, *overload.kwonlyargs]
        found |= {"input" if a.arg == "self" else a.arg for a in arguments}
        if overload.vararg is not None:
            found.add(overload.vararg.arg)
    if found:
        return found
    function = resolve(name)
    if inspect.isbuiltin(function):  # only its documentation says, in the first line
        text = (function.__doc__ or "").strip().partition(" -> ")[0].rstrip(" :\n").partition("(")[2]
        return {parameter.name for parameter in signature(text.removesuffix(")"))}
    return {"input" if p == "self" else p for p in inspect.signature(function).parameters}


@pytest.mark.parametrize("name", RULES)
def test_rule_signatures(name: str) -> None:
    rule = RULES[name]
    function = resolve(name)
    if name in NO_SIGNATURE:
        return
    if inspect.isfunction(function) and len(rule.names) == 1 and name.startswith("torch."):
        check(tuple(p for p in rule.parameters if p.name != "_stacklevel"), function)
        return
    # A rule with several names binds what any of them takes.
    known = set().union(*(known_parameters(each) for each in rule.names))
    unknown = {p.name for p in rule.parameters} - known - NOT_IN_A_SIGNATURE
    assert not unknown, f"{name} has {sorted(known)}"
