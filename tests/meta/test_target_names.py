"""Every name and keyword that is emitted exists in the installed JAX, Flax and optax."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import flax.linen
import jax
import jax.numpy
import optax
import pytest

import migrate
from migrate import snippet_files
from migrate.layers.table import TABLE
from migrate.optimizers import INITIALIZERS, OPTIMIZERS, SCHEDULES
from tests.conformance.examples import all_examples

ROOTS = {"nn": flax.linen, "jax": jax, "jnp": jax.numpy, "optax": optax}
SNIPPETS = {path.stem: path for path in (Path(migrate.__file__).parent / "snippets").glob("[!_]*.py")}


def signatures() -> dict[str, inspect.Signature]:
    """Of the snippets: classes by their fields."""
    found = {}
    for name, path in SNIPPETS.items():
        names: dict[str, Any] = {"__name__": name}
        exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), names)
        found[name] = inspect.signature(names[name])
    return found


def parsed(template: str) -> ast.AST:
    """A template with its placeholders filled by names."""
    return ast.parse(re.sub(r"\{(\w+)[^{}]*\}", r"_\1", template).strip())


def emitted() -> Iterator[tuple[str, ast.AST]]:
    """Every piece of target code in the registries and snippets, with where it comes from."""
    for example in all_examples():
        yield f"{example.rule}: {example.expected}", parsed(example.expected)
    for layer in TABLE.values():
        for template in (layer.template, *(variant.template for variant in layer.variants)):
            yield layer.torch, parsed(template)
        yield layer.torch, parsed(f"f({layer.defaults})")
    for entry in OPTIMIZERS.values():
        for template in (entry.template, *(variant for _, variant in entry.variants)):
            yield entry.torch, parsed(template)
    for name, entry in SCHEDULES.items():
        for template in filter(None, (entry.template, entry.momentum)):
            yield name, parsed(template)
    for name, (_, template) in INITIALIZERS.items():
        yield name, parsed(template)
    for name, path in SNIPPETS.items():
        yield name, ast.parse(path.read_text())


def dotted(node: ast.AST) -> list[str]:
    """The parts of a plain dotted name, else nothing."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and dotted(node.value):
        return [*dotted(node.value), node.attr]
    return []


@functools.cache
def resolve(name: str) -> Any:
    first, *parts = name.split(".")
    return functools.reduce(getattr, parts, ROOTS[first])


def problems(tree: ast.AST, snippets: dict[str, inspect.Signature]) -> Iterator[str]:
    """Names that do not resolve, and calls that do not bind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and dotted(node) and dotted(node)[0] in ROOTS:
            try:
                resolve(".".join(dotted(node)))
            except AttributeError:
                yield f"{'.'.join(dotted(node))} does not exist"
                return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(isinstance(arg, ast.Starred) for arg in node.args):
            continue
        function, keywords, args = node.func, node.keywords, node.args
        if dotted(function) == ["partial"]:
            function, args = args[0], args[1:]
        name = dotted(function)
        signature = snippets.get(name[0]) if len(name) == 1 else None
        if name and name[0] in ROOTS:
            signature = _signature(resolve(".".join(name)))
        if signature is None:
            continue
        try:
            signature.bind_partial(*args, **{keyword.arg: None for keyword in keywords if keyword.arg})
        except TypeError as error:
            yield f"{ast.unparse(node)}: {error}"


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except ValueError:  # a dtype, or an object made of C code
        return None


def test_emitted_names_and_keywords_exist() -> None:
    snippets = signatures()
    pieces = list(emitted())
    assert len(pieces) > 300
    found = [f"{where}: {problem}" for where, tree in pieces for problem in problems(tree, snippets)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("jnp.summ(x)", "jnp.summ does not exist"),
        ("nn.LayerNorm(eps=1e-5)", "unexpected keyword argument 'eps'"),
        ("partial(nn.gelu, approx=True)", "unexpected keyword argument 'approx'"),
        ("cross_entropy(x, y, smoothing=0.1)", "unexpected keyword argument 'smoothing'"),
    ],
)
def test_a_wrong_name_would_be_noticed(code: str, problem: str) -> None:
    (found,) = problems(parsed(code), signatures())
    assert problem in found


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_is_used_and_defines_its_name(name: str) -> None:
    """Each is named in the rules, the layer table or a pass, or imported by another; its file defines that name, and
    beside it only what has it in its own."""
    texts = {path: path.read_text() for path in Path(migrate.__file__).parent.rglob("*.py")}
    named = any(re.search(rf'["(]{name}[("]', text) for path, text in texts.items() if path.parent.name != "snippets")
    assert named or any(name in snippet_files.needs(other) for other in SNIPPETS)
    made = [s.name for s in ast.parse(SNIPPETS[name].read_text()).body if isinstance(s, ast.FunctionDef | ast.ClassDef)]
    assert made[0] == name and all(name in other for other in made)
