"""Pass 7: the output file: imports that its code needs, snippets it uses, helpers before their first use."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst

from migrate import snippet_files
from migrate.files.borrowed import PACKAGES
from migrate.files.source import SourceFile
from migrate.kept import imported_from, in_full, names_of_kept
from migrate.lowering import Lowered
from migrate.lowering.unit import Helper
from migrate.named_draws import with_named_draws
from migrate.numpy_copies import with_copies
from migrate.syntax import nodes, suites, usage
from migrate.syntax.folding import folded
from migrate.syntax.imported import imported_names
from migrate.syntax.line_breaks import parenthesised
from migrate.syntax.nodes import Statement
from migrate.syntax.nonlocals import with_names_outside
from migrate.syntax.suites import is_import
from migrate.syntax.walking import every

_REPLACED = {
    "torch",
    "torch_geometric",
    "accelerate",
    "contextlib",
}  # packages of which an output keeps only what it uses
_BLANK = cst.EmptyLine(indent=False)

_SHARDING = ("Mesh", "NamedSharding", "PartitionSpec")

# name in the code: its import. Standard library first, as people order them.
_STANDARD = {
    "collections": "import collections.abc",
    "copy": "import copy",
    "math": "import math",
    "re": "import re",
    "Callable": "from collections.abc import Callable",
    "Mapping": "from collections.abc import Mapping",
    "os": "import os",
    "pickle": "import pickle",
    "random": "import random",
    "shutil": "import shutil",
    "dataclass": "from dataclasses import dataclass",
    "dataclasses": "import dataclasses",
    "Sequence": "from collections.abc import Sequence",
    "partial": "from functools import partial",
    "OrderedDict": "from collections import OrderedDict",
    "Path": "from pathlib import Path",
    "SimpleNamespace": "from types import SimpleNamespace",
    "Any": "from typing import Any",
    "NamedTuple": "from typing import NamedTuple",
}
THIRD_PARTY = {
    "nn": "import flax.linen as nn",
    "einops": "import einops",
    "jax": "import jax",
    "jnp": "import jax.numpy as jnp",
    "np": "import numpy as np",
    "ocp": "import orbax.checkpoint as ocp",
    "optax": "import optax",
    **dict.fromkeys(_SHARDING, f"from jax.sharding import {', '.join(_SHARDING)}"),
    "ravel_pytree": "from jax.flatten_util import ravel_pytree",
    "serialization": "from flax import serialization",
    "flatten_dict": "from flax.traverse_util import flatten_dict",
    "unflatten_dict": "from flax.traverse_util import unflatten_dict",
    "freeze": "from flax.core import freeze",
    "struct": "from flax import struct",
}


@functools.cache
def imports() -> dict[str, str]:
    """What outputs import where they use it, by name, as the full name that it then stands for."""
    written = "\n".join(dict.fromkeys([*_STANDARD.values(), *THIRD_PARTY.values()]))
    return imported_names(cst.parse_module(written))


def _with_second_names(module: cst.Module, body: list[Statement], taken: Mapping[str, str]) -> list[Statement]:
    """The statements of an output with what stays torch in it under full names, where it goes by others: those that
    imports give, and `ones = torch.ones`, which the output no longer says. Of lambdas the name is said again."""
    full, lambdas = dict(taken), dict[str, Statement]()
    for line in module.body:
        name, value = suites.name_and_value(line)
        path = nodes.dotted(value) or "" if value is not None else ""
        if path.startswith("torch."):
            full[name] = path
        elif isinstance(value, cst.Lambda):
            lambdas[name] = line
    if full.keys() - taken.keys() or lambdas:
        bound = set(usage.stores(body))
        full = {name: path for name, path in full.items() if name in taken or name not in bound}
        read = names_of_kept(body) - bound
        above = next((at for at, one in enumerate(body) if isinstance(one, cst.FunctionDef | cst.ClassDef)), len(body))
        body[above:above] = [line for name, line in lambdas.items() if name in read]
    return [in_full(statement, full) for statement in body]


def emit(source: SourceFile, lowered: Lowered) -> str:
    """The text of the rewritten file; the input's own text where nothing was rewritten."""
    if _unchanged(source, lowered) and not source.edited:
        return source.text
    body = _with_helpers(lowered.body, lowered.helpers)
    taken = {name: full for name, full in imported_from(source.module.body, _REPLACED).items() if name in THIRD_PARTY}
    body = _with_second_names(source.module, body, taken)
    body = with_names_outside(body) if "nonlocal" in source.text else body
    body, draws = with_named_draws(with_copies(body, source.module, lowered.script.results_changed))
    files = {**lowered.snippets, **{name: name for name in draws}}
    body, snippets = _with_snippets(body, files)
    body = _with_imports(body, lowered.wanted, lowered.rebound)
    inserted = {id(statement) for helper in lowered.helpers for statement in helper.code} | set(map(id, snippets))
    own = {one.name.value for one in source.module.body if isinstance(one, cst.FunctionDef)}
    inserted |= {id(one) for one in body if isinstance(one, cst.FunctionDef) and one.name.value not in own}
    below = set(map(id, _added_below(body, set(map(id, source.module.body)))))
    module = source.module.with_changes(body=_spaced(body, inserted, below))
    written = map(snippet_files.text, snippet_files.with_needs(tuple(files.values())))
    return folded(parenthesised(module).code, source, written)


def _unchanged(source: SourceFile, lowered: Lowered) -> bool:
    if lowered.helpers or lowered.snippets:
        return False
    made = [statement for _, statements in lowered.body for statement in statements]
    written = source.module.body
    if len(made) == len(written) and all(map(operator.is_, made, written)):
        return True
    return cst.Module(made).code == cst.Module(list(written)).code


def _with_helpers(parts: Sequence[tuple[int, tuple[Statement, ...]]], helpers: Iterable[Helper]) -> list[Statement]:
    """Each helper before the top-level statement that first needs it."""
    body: list[Statement] = []
    waiting = sorted(helpers, key=lambda helper: helper.anchor)
    for index, statements in parts:
        due = [helper for helper in waiting if helper.anchor <= index]
        if due and statements:
            waiting = [helper for helper in waiting if helper not in due]
            body += [statement for helper in due for statement in helper.code]
        body += statements
    return body + [statement for helper in waiting for statement in helper.code]


def _with_snippets(body: list[Statement], files: Mapping[str, str]) -> tuple[list[Statement], list[Statement]]:
    """The snippets together, before the first statement that uses one of them; and the snippets alone."""
    used = {name for name in files if any(name in usage.loads(s) for s in body if not is_import(s))}
    position = next((i for i, s in enumerate(body) if not is_import(s) and used & set(usage.loads(s))), None)
    if position is None:
        return body, []
    names = {file: name for name, file in files.items()}
    wanted = sorted(names[file] for file in snippet_files.with_needs(tuple(files[name] for name in used)))
    made = [statement for name in wanted for statement in snippet_files.definition(files[name], name, names)]
    return [*body[:position], *made, *body[position:]], made


def _roots(statement: Statement) -> set[str]:
    """The packages that an import statement names."""
    assert isinstance(statement, cst.SimpleStatementLine)
    found = set()
    for small in statement.body:
        if isinstance(small, cst.Import):
            found |= {(nodes.dotted(alias.name) or "").split(".")[0] for alias in small.names}
        elif isinstance(small, cst.ImportFrom) and small.module is not None and not small.relative:
            found.add((nodes.dotted(small.module) or "").split(".")[0])
    return found


def _with_imports(body: list[Statement], wanted: frozenset[str], rebound: frozenset[str]) -> list[Statement]:
    """The imports that the code needs, and those of which other files of the project take a name (`wanted`).
    rebound: names that are no longer torch's."""
    body = [
        nodes.visited(s, _ImportsInside(rebound)) if not is_import(s) and imported_from([s], _REPLACED) else s
        for s in body
    ]
    code = [statement for statement in body if not is_import(statement)]
    used = set(usage.loads(code)) | _annotations(code) | _reexported(body, wanted)
    paths = {path for statement in code for path in usage.paths(statement)}
    first = next((i for i, s in enumerate(body) if is_import(s) and "torch" in _roots(s)), None)
    kept: list[Statement] = []
    imported: set[str] = set()
    position = 0
    for number, statement in enumerate(body):
        if number == first:
            position = len(kept)
        if is_import(statement) and _REPLACED & _roots(statement):
            left = _still_used(statement, used - rebound, paths)
            if left is None:
                continue
            statement = left
        elif is_import(statement) and (models := _names_of_models(statement, body)):
            left = _still_used(statement, used | (set(usage.stores(statement)) - models))
            if left is None:
                continue
            statement = left
        if is_import(statement):
            imported |= set(usage.stores(statement))
        kept.append(statement)
    if first is None:
        position = _import_position(kept)
    below_docstring = first is None and position > 0 and not is_import(kept[position - 1])
    lines = list(body[first].leading_lines) if first is not None else [_BLANK] if below_docstring else []
    imported |= {s.name.value for s in code if isinstance(s, cst.ClassDef | cst.FunctionDef)}  # the script's own
    standard = [nodes.statement(_STANDARD[name]) for name in _STANDARD if name in used and name not in imported]
    texts = dict.fromkeys(THIRD_PARTY[name] for name in THIRD_PARTY if name in used and name not in imported)
    others = [nodes.statement(text) for text in texts]
    if "torch" in used and "torch" not in imported:
        others.append(nodes.statement("import torch"))
    if others:
        others[0] = others[0].with_changes(leading_lines=lines)
    following = kept[position:]
    if others and following and list(following[0].leading_lines) == lines and lines and is_import(following[0]):
        following = [following[0].with_changes(leading_lines=[]), *following[1:]]
    made = [*kept[:position], *others, *following]
    after = [i + 1 for i, s in enumerate(kept[:position]) if is_import(s) and _roots(s) <= sys.stdlib_module_names]
    if standard and after:
        return [*made[: after[-1]], *standard, *made[after[-1] :]]
    if standard:
        standard[0] = standard[0].with_changes(leading_lines=lines)
        made[position] = made[position].with_changes(leading_lines=[_BLANK])
    return [*made[:position], *standard, *made[position:]]


def _names_of_models(statement: Statement, body: Sequence[Statement]) -> set[str]:
    """The names of an import that stand for packages of models, where the output has files in the place of theirs."""
    full = imported_from([statement], {package.partition(".")[0] for package in PACKAGES})
    roots = {root for one in body if is_import(one) for root in _roots(one)}
    taken = {package for package in PACKAGES if any(root.startswith(f"{package.partition('.')[0]}_") for root in roots)}
    return {name for name, path in full.items() if path in taken}


def _reexported(body: Sequence[Statement], wanted: frozenset[str]) -> set[str]:
    """Names of torch's data loading that other files take from this one."""
    made: set[str] = set()
    for statement in body:
        if is_import(statement) and "torch.utils.data" in nodes.code(statement):
            made |= set(usage.stores(statement)) & wanted
    return made


def _import_position(body: Sequence[Statement]) -> int:
    """After the docstring and the imports that a file starts with."""
    position = 0
    for number, statement in enumerate(body):
        docstring = (
            number == 0 and isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Expr)
        )
        if not docstring and not is_import(statement):
            break
        position = number + 1
    return position


def _annotations(statements: Sequence[Statement]) -> set[str]:
    """Names in the annotations of fields."""
    found = [each for statement in statements for each in every(statement, (cst.Annotation, cst.Decorator))]
    return set(usage.loads(each.annotation if isinstance(each, cst.Annotation) else each.decorator for each in found))


def _still_used(statement: Statement, used: set[str], paths: set[str] | None = None) -> Statement | None:
    """A torch import with the names that the output still uses; None where there are none left. `paths`: the dotted
    names that it uses, where they are known: `import torch.optim` alone serves nothing else."""
    assert isinstance(statement, cst.SimpleStatementLine)
    small = statement.body[0]
    assert isinstance(small, cst.Import | cst.ImportFrom)
    if isinstance(small.names, cst.ImportStar):
        return statement
    kept = []
    for alias in small.names:
        bound = alias.evaluated_alias or alias.evaluated_name.split(".")[0]
        module = alias.evaluated_name if isinstance(small, cst.Import) and alias.asname is None else bound
        served = paths is None or "." not in module or module in paths
        if bound in used and bound not in THIRD_PARTY and served:
            kept.append(alias)
    if not kept:
        return None
    if len(kept) == len(small.names):
        return statement
    kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return statement.with_changes(body=[small.with_changes(names=kept)])


class _ImportsInside(cst.CSTTransformer):
    """Takes imports of torch out of functions that no longer use them."""

    def __init__(self, rebound: frozenset[str]) -> None:
        super().__init__()
        self.rebound = rebound
        self.used: list[set[str]] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.used.append(set(usage.loads(node.body)) - self.rebound)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.used.pop()
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        if not self.used or not is_import(updated_node) or not _REPLACED & _roots(updated_node):
            return updated_node
        left = _still_used(updated_node, self.used[-1])
        return left if isinstance(left, cst.SimpleStatementLine) else cst.RemoveFromParent()


def _added_below(body: list[Statement], written: set[int]) -> Iterator[Statement]:
    """The lines right below definitions that were put there: those that make weights."""
    for one, following in itertools.pairwise(body):
        added = id(following) not in written and isinstance(following, cst.SimpleStatementLine)
        if added and isinstance(one, cst.FunctionDef | cst.ClassDef) and not following.leading_lines:
            yield following


def _spaced(body: list[Statement], inserted: set[int], below: set[int]) -> list[Statement]:
    """Two blank lines around the definitions that were put in at the top level, and before lines below a definition."""
    made: list[Statement] = []
    for number, statement in enumerate(body):
        previous = body[number - 1] if number else None
        beside = id(statement) in inserted | below or id(previous) in inserted
        lines = list(itertools.dropwhile(lambda line: line.comment is None, statement.leading_lines))
        if previous is not None and beside and len(statement.leading_lines) - len(lines) < 2:
            statement = statement.with_changes(leading_lines=[_BLANK, _BLANK, *lines])
        made.append(statement)
    return made
