"""Which entries of a batch are read where JAX takes it: what else is in it, names of files mostly, are no arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from migrate.kept import kept
from migrate.known.facts import FunctionFacts
from migrate.known.script import Script
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.remembering import remembered
from migrate.syntax.walking import every


class Named(str):
    """A key that code names: `batch[args.key]`."""


Written = cst.Dict | cst.Tuple | cst.List  # what data sets give, as they write it out
Path = tuple[str | int, ...]  # the keys that lead to an entry, `("image", "left")`; a number alone of a tuple


@dataclass(frozen=True)
class Read:
    """The entries that are read of a batch. `perhaps`: whether some of them may be missing, `"mask" in batch`. `count`:
    how many the batch is taken apart into, 0 where it is not."""

    paths: list[Path]
    perhaps: bool = False
    count: int = 0


@dataclass(frozen=True)
class Reader:
    """Follows a batch. `passes`: the forward pass of the model that has a name, which is given it."""

    script: Script
    passes: Callable[[str], FunctionFacts | None]
    seen: frozenset[tuple[str, str]] = frozenset()

    def read(
        self, scope: str, body: Sequence[cst.CSTNode], name: str, constants: Mapping[str, str] | None = None
    ) -> Read | None:
        """The entries that some code of a scope reads of a batch, itself or in functions and models of the user's own
        that it gives the batch to; None where it does anything else with it. `constants`: texts that names stand
        for."""
        if (scope, name) in self.seen or name in usage.stores(body):
            return None
        inner = replace(self, seen=self.seen | {(scope, name)})
        found: list[Path] = []
        known, perhaps, count = 0, False, 0
        inside: set[cst.CSTNode] = set()  # parts of longer paths
        stored = {*usage.stores(body)}
        named = {one: text for one, text in (constants or {}).items() if one not in stored}
        if not self.seen:
            named |= dict.fromkeys({*usage.loads(body)} - stored, "")
        for one in (part for each in body for part in every(each, (cst.Subscript, cst.Call, cst.Comparison))):
            if isinstance(one, cst.Subscript):
                paths = [] if one in inside else _paths_of(one, name, named)
                inside |= {one.value} if one in inside or paths else set()
            else:
                asked = _key_asked_for(one, name)
                paths = [] if asked is None else [(asked,)]
                perhaps |= asked is not None
            if not paths and isinstance(one, cst.Call):
                further = inner.read_by(scope, one, name)
                paths = further.paths if further is not None else []
                perhaps |= further is not None and further.perhaps
                count = max(count, further.count) if further is not None else count
            found += paths
            known += bool(paths)
        for targets in _taken_apart(body, name):
            read = set(usage.loads(body))
            found += [(number,) for number, target in enumerate(targets) if target in read]
            known, count = known + 1, max(count, len(targets))
        whole = {path[:length] for path in found for length in range(1, len(path))}  # read by parts, and so as a whole
        if not found or known != usage.loads(body).count(name) or whole & set(found):
            return None
        by_number = [path for path in found if isinstance(path[0], int)]
        if by_number and len(by_number) < len(found):
            return None
        return Read(sorted(set(found)) if by_number else list(dict.fromkeys(found)), perhaps, count)

    def read_by(self, scope: str, call: cst.Call, name: str) -> Read | None:
        """What a function of the user's, or the forward pass of a model, reads of a batch that a call gives it."""
        given = [arg for arg in call.args if nodes.dotted(arg.value) == name]
        if len(given) != 1 or given[0].star:
            return None
        path = nodes.dotted(call.func) or ""
        owner, _, called = path.rpartition(".")
        function = self.passes(owner if called == "apply" else path)
        if function is not None:
            args = call.args[1:] if called == "apply" else call.args
            number = next(number for number, arg in enumerate(args) if arg is given[0])
            own = [one.name.value for one in function.node.params.params][1:]
            keyword = given[0].keyword
            parameter = keyword.value if keyword is not None else own[number] if number < len(own) else ""
            return self.read(function.qualname, [function.node.body], parameter) if parameter else None
        found: list[Path] = []
        perhaps, count = False, 0
        for facts in self.script.functions.values():
            sites = [site for site in facts.found_calls if site.scope == scope]
            for parameter in {
                one
                for site in sites
                for one, node in site.bound.items()
                if facts.node.name.value == called and nodes.dotted(node) == name
            }:
                settled = {*facts.defaults} - {one for site in sites for one in site.bound}
                texts = {one: nodes.literal(facts.defaults[one]) for one in settled}
                constants = {one: text for one, text in texts.items() if isinstance(text, str)}
                read = self.read(facts.qualname, [facts.node.body], parameter, constants)
                if read is None:
                    return None
                found += read.paths
                perhaps, count = perhaps or read.perhaps, max(count, read.count)
        return Read(found, perhaps, count) if found else None

    def takes_keys(self, scope: str, body: Sequence[cst.CSTNode], name: str) -> bool:
        """Whether some code takes a batch for a dict, or a function of the user's own that it gives it to."""
        if (scope, name) in self.seen:
            return False
        inner = replace(self, seen=self.seen | {(scope, name)})
        if reads_keys(body, name):
            return True
        calls = [call for one in body for call in usage.calls(one)]
        called = {
            (nodes.dotted(call.func) or "").rpartition(".")[2]
            for call in calls
            if any(nodes.dotted(arg.value) == name for arg in call.args)
        }
        return any(
            nodes.dotted(node) == name and inner.takes_keys(facts.qualname, [facts.node.body], parameter)
            for facts in self.script.functions.values()
            if facts.node.name.value in called
            for site in facts.found_calls
            if site.scope == scope
            for parameter, node in site.bound.items()
        )


def _taken_apart(body: Sequence[cst.CSTNode], name: str) -> list[list[str]]:
    """The names that the parts of a batch get, `x, y, names = batch`."""
    found: list[list[str]] = []
    for one in (part for each in body for part in every(each, cst.Assign)):
        target = one.targets[0].target
        if nodes.dotted(one.value) == name and len(one.targets) == 1 and isinstance(target, cst.Tuple):
            names = [nodes.dotted(part.value) or "" for part in target.elements]
            found += [names] if all(isinstance(part.value, cst.Name) for part in target.elements) else []
    return found


def _paths_of(node: cst.Subscript, name: str, named: Mapping[str, str]) -> list[Path]:
    """The entries of a batch that an expression reads, several of `batch[:2]`; none of other expressions. `named`:
    names that keys have, and the texts that they stand for, "" where that is told as the script runs."""
    keys: list[str | int] = []
    inner: Expr = node
    while isinstance(inner, cst.Subscript) and len(inner.slice) == 1:
        index = inner.slice[0].slice
        if isinstance(index, cst.Slice):
            count = nodes.literal(index.upper) if index.upper is not None else None
            if not isinstance(count, int) or index.lower is not None or index.step is not None:
                return []
            return [(number,) for number in range(count)] if nodes.dotted(inner.value) == name else []
        key = nodes.literal(index.value) if isinstance(index, cst.Index) else None
        path = nodes.dotted(index.value) if isinstance(index, cst.Index) else None
        if path and path.partition(".")[0] in named:
            key = named[path] if named.get(path) else Named(path)
        if not isinstance(key, str | int) or isinstance(key, bool):
            return []
        keys.append(key)
        inner = inner.value
    path = tuple(reversed(keys))
    plain = all(isinstance(key, str) for key in path) or (len(path) == 1 and isinstance(path[0], int) and path[0] >= 0)
    return [path] if nodes.dotted(inner) == name and plain else []


def _key_asked_for(node: cst.Call | cst.Comparison, name: str) -> str | None:
    """The key for which code asks a dict that may lack it: `"mask" in batch`, `batch.get("mask")`."""
    asked: Expr | None = None
    if isinstance(node, cst.Comparison) and nodes.dotted(node.comparisons[0].comparator) == name:
        asked = node.left if isinstance(node.comparisons[0].operator, cst.In | cst.NotIn) else None
    if isinstance(node, cst.Call) and nodes.dotted(node.func) == f"{name}.get" and node.args:
        asked = node.args[0].value
    key = nodes.literal(asked) if asked is not None else None
    return key if isinstance(key, str) else None


def reads_keys(body: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether some code takes what has a name for a dict: `batch["x"]`, `batch.items()`, `"x" in batch`."""
    for one in (part for each in body for part in every(each, (cst.Subscript, cst.Attribute, cst.Comparison))):
        if isinstance(one, cst.Subscript):
            index = one.slice[0].slice
            key = nodes.literal(index.value) if isinstance(index, cst.Index) else None
            if isinstance(key, str) and nodes.dotted(one.value) == name:
                return True
        elif isinstance(one, cst.Attribute):
            if one.attr.value in _OF_DICTS and nodes.dotted(one.value) == name:
                return True
        elif isinstance(nodes.literal(one.left), str):
            asked = one.comparisons[0]
            if isinstance(asked.operator, cst.In | cst.NotIn) and nodes.dotted(asked.comparator) == name:
                return True
    return False


def only_listed(body: cst.CSTNode, name: str) -> bool:
    """Whether some code does nothing with what has a name but what it would with a list of texts: shows it, counts it,
    goes through it, takes elements."""
    listed = 0
    for one in every(
        body, (cst.Call, cst.Subscript, cst.For, cst.CompFor, cst.FormattedStringExpression, cst.AugAssign)
    ):
        match one:
            case cst.Call(func=cst.Name(value=called)) if called in _OF_LISTS:
                held = [arg.value for arg in one.args]
            case cst.Call(func=cst.Attribute(attr=cst.Name(value="append" | "extend" | "writerow"))):
                held = [arg.value for arg in one.args]
            case cst.Subscript(value=value):
                held = [value]
            case cst.For(iter=value) | cst.CompFor(iter=value):
                held = [value]
            case cst.FormattedStringExpression(expression=value):
                held = [value]
            case cst.AugAssign(operator=cst.AddAssign(), value=value):
                held = [value]
            case _:
                held = []
        listed += sum(nodes.dotted(value) == name for value in held)
    return listed == usage.loads(body).count(name)


_OF_LISTS = ("print", "len", "zip", "enumerate", "list", "tuple", "set", "str", "sorted")
_OF_DICTS = ("items", "keys", "values", "get")


def entries_given(modules: Sequence[cst.Module]) -> list[Written]:
    """The dicts and rows that the data sets of a project, and what puts their elements together, write out as what
    they give."""
    return [one for module in modules for one in _given_in(module)]


@remembered
def _given_in(module: cst.Module) -> tuple[Written, ...]:
    functions = every(module, cst.FunctionDef)
    gives = [one for one in functions if one.name.value == "__getitem__" or "collate" in one.name.value]
    values = [one.value for each in gives for one in every(each, cst.Return)]
    return tuple(one for one in values if isinstance(one, Written))


def all_read(read: Read, given: Sequence[Written]) -> bool:
    """Whether all entries are read that batches have, as far as that is to be seen: tuples of which nothing is known
    are taken to hold arrays."""
    written = [one for one in given if isinstance(one, cst.Dict)]
    if any(isinstance(key, str) for path in read.paths for key in path):
        entries = [part for one in written for part in one.elements if isinstance(part, cst.DictElement)]
        flat = not any(isinstance(part.value, cst.Dict) for part in entries)
        keys, heads = {nodes.literal(part.key) for part in entries}, {path[0] for path in read.paths}
        return bool(written) and flat and keys <= heads
    if read.count:
        return len(read.paths) == read.count
    return all(len(one.elements) <= len(read.paths) for one in given if isinstance(one, cst.Tuple | cst.List))


def text_read(read: Read, given: Sequence[Written]) -> str | int | None:
    """The key, or the number, of an entry that is read and is a text in what batches are written of."""
    entries: list[tuple[object, Expr]] = []
    for one in given:
        if isinstance(one, cst.Dict):
            entries += [
                (nodes.literal(part.key), part.value) for part in one.elements if isinstance(part, cst.DictElement)
            ]
        else:
            entries += [(number, part.value) for number, part in enumerate(one.elements)]
    arrays = {key for key, value in entries if not _is_text(value)}  # in another data set, maybe
    texts = {key for key, _ in entries} - arrays
    return next((path[0] for path in read.paths if path[0] in texts), None)


def _is_text(node: Expr) -> bool:
    made = isinstance(node, cst.Call) and nodes.dotted(node.func) in ("str", "os.path.basename", "os.path.join")
    return made or isinstance(node, cst.FormattedString | cst.SimpleString | cst.ConcatenatedString)


def part_of(batch: Expr, read: Read, taken_in: Callable[[Expr], cst.Call], key: str = "key") -> Expr | None:
    """A batch with those entries alone, as arrays; None where that is not to be written. `key`: what the variable is
    called."""
    if any(len(path) > 1 for path in read.paths) or (len(read.paths) == 1 and isinstance(read.paths[0][0], str)):
        return None if read.perhaps else _nested(batch, _tree(read.paths), taken_in)
    keys = [path[0] for path in read.paths]
    if read.count:
        parts = [nodes.expression(f"{{batch}}[{number}]", batch=batch) for number in range(read.count)]
        made = [taken_in(part) if number in keys else nodes.name("None") for number, part in enumerate(parts)]
        return cst.List([cst.Element(one) for one in made])
    if keys == list(range(len(keys))):
        first = nodes.expression(f"{{batch}}[:{len(keys)}]", batch=batch)
        return nodes.call("jax.tree.map", taken_in(batch).func, first)
    key = usage.unused_name(key, {*usage.loads(batch), *(str(one).partition(".")[0] for one in keys)})
    entry = taken_in(nodes.expression(f"{{batch}}[{key}]", batch=batch))
    ifs = [cst.CompIf(nodes.expression(f"{key} in {{batch}}", batch=batch))] if read.perhaps else []
    each = cst.CompFor(nodes.name(key), nodes.tuple_of([_literal(one) for one in keys]), ifs)
    return cst.DictComp(nodes.name(key), entry, for_in=each)


def tensors_of(batch: Expr, taken_in: Callable[[Expr], cst.Call], names: tuple[str, str] = ("key", "value")) -> Expr:
    """The tensors in a dict, as arrays."""
    key, value = map(nodes.name, names)
    each = cst.CompFor(
        nodes.tuple_of([key, value], parentheses=False),
        nodes.expression("{batch}.items()", batch=batch),
        ifs=[cst.CompIf(kept(nodes.expression("torch.is_tensor({value})", value=value)))],
    )
    return cst.DictComp(key, taken_in(value), for_in=each)


_Tree = dict[str | int, "_Tree"]


def _tree(read: Sequence[Path]) -> _Tree:
    tree: _Tree = {}
    for path in read:
        inner = tree
        for key in path:
            inner = inner.setdefault(key, {})
    return tree


def _nested(batch: Expr, tree: Mapping[str | int, _Tree], taken_in: Callable[[Expr], cst.Call]) -> Expr:
    if not tree:
        return taken_in(batch)
    parts = {key: nodes.expression("{batch}[{key}]", batch=batch, key=_literal(key)) for key in tree}
    return cst.Dict([cst.DictElement(_literal(key), _nested(parts[key], tree[key], taken_in)) for key in tree])


def _literal(key: str | int) -> Expr:
    return nodes.expression(key if isinstance(key, Named) else json.dumps(key, ensure_ascii=False))
