"""The weight manifest, ``weights.json``: which torch key fills which Flax leaf, and by which moves.

Standard library only. ``migrate rewrite`` writes it, ``migrate port-weights`` and ``migrate parity`` read it, and
people may write one by hand. ``loads`` and ``dumps`` lose nothing: ``loads(dumps(m)) == m``, and a text that ``dumps``
wrote comes back to the letter.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from migrate import saved_files
from migrate.layers.moves import Move, Piece, Shape, Stack, cut, from_json, piece_from_json, shape_after, shapes_between
from migrate.saved_files import SavedFile
from migrate.strict_json import (
    ManifestError,
    as_json,
    fields_in,
    flag_in,
    items_in,
    no_duplicates,
    number_in,
    reject,
    strings_in,
    text_in,
)

FORMAT, VERSION = "migrate-weights", 1
WILDCARD = re.compile(r"\{(n?\d+)\}")  # {0} for an index of a list, {n0} for a key of a dict


@dataclass(frozen=True)
class Leaf:
    """One Flax leaf, or with ``{0}`` in both names one for each list index found.

    ``flax`` starts with the collection ("params/conv1/kernel"); ``moves`` go torch to Flax; ``shape`` is the Flax
    leaf's, with None for a length not known statically, and None as a whole when not even the rank is. ``dtype`` None
    keeps the stored type. ``torch_shape`` is needed only to go back through a leading reshape, which the output's shape
    does not determine.

    ``take`` is the piece of the torch tensor that is moved, ``put`` the piece of the Flax leaf that it fills; each is
    a piece of the one before it, and empty for the whole. The leaves that share a torch key, or a Flax path, must take
    all of the one and fill all of the other, once. ``shape`` and ``torch_shape`` are those of the wholes.

    ``scale`` and ``shift``: the Flax leaf holds ``torch * scale + shift``, as some libraries keep a norm's weight less
    one, or divide the queries beforehand. It is rounded to the leaf's type: the way back is not exact to the bit.

    ``copy``: another leaf holds this torch tensor, too, as where a model unties what torch has tied. Going back, the
    two must be equal.
    """

    flax: str
    torch: str
    moves: tuple[Move, ...] = ()
    shape: Shape | None = None
    dtype: str | None = None
    optional: bool = False
    torch_shape: Shape | None = None
    take: tuple[Piece, ...] = ()
    put: tuple[Piece, ...] = ()
    scale: float = 1.0
    shift: float = 0.0
    copy: bool = False

    @property
    def moved_shape(self) -> Shape | None:
        """What is known of the shape of the piece after the moves."""
        return cut(self.put, self.shape)

    @property
    def taken_shape(self) -> Shape | None:
        """What is known of the shape of the piece before the moves."""
        return cut(self.take, self.torch_shape)


@dataclass(frozen=True)
class Unused:
    """A torch key that no Flax leaf needs, and why. It may be absent."""

    torch: str
    reason: str


@dataclass(frozen=True)
class Tie:
    """``torch`` is the same tensor as ``same_as``, and one leaf holds both.

    In a checkpoint it may be absent, or must be equal bit for bit. ``optional``: an argument of the constructor makes
    the tie or not. Where a checkpoint has two tensors that differ, ``torch`` fills a leaf of its own.
    """

    torch: str
    same_as: str
    optional: bool = False


@dataclass(frozen=True)
class ModelWeights:
    """The weights of one model class. ``name`` is the class's name ("class" in the file)."""

    name: str
    leaves: tuple[Leaf, ...] = ()
    unused: tuple[Unused, ...] = ()
    ties: tuple[Tie, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """``source`` is the rewritten file's name, ``target`` the library that the Flax names follow ("linen"), ``saved``
    what the files hold that the script saves, for each of their kinds, ``by_inputs`` the backward passes of the torch
    script that are taken for gradients by inputs alone, and its calls of `torch.autograd.grad`, "train.py:44": they
    train nothing."""

    source: str
    target: str
    models: tuple[ModelWeights, ...]
    saved: tuple[SavedFile, ...] = ()
    by_inputs: tuple[str, ...] = ()


def read(path: str | Path) -> Manifest:
    """The manifest in a file.

    Raises ManifestError whose message begins with the path; OSError when it cannot be opened.
    """
    try:
        return loads(Path(path).read_text(encoding="utf-8"))
    except (ManifestError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path}: {error}") from None


def write(manifest: Manifest, path: str | Path) -> None:
    """Write the file whole, or not at all."""
    with replacing(path) as file:
        file.write(dumps(manifest).encode())


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A binary file under a temporary name beside ``path``, renamed to it at the end.

    After an error nothing is left behind and what was at ``path`` is as before.
    """
    path = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            yield file
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- writing ----------------------------------------------------------------------------------------------------------


def dumps(manifest: Manifest) -> str:
    """The manifest as text: stable, one leaf on each line, ended by a newline."""
    head = {"format": FORMAT, "version": VERSION, "source": manifest.source, "target": manifest.target}
    lines = ",\n ".join(f"{as_json(key)}: {as_json(value)}" for key, value in head.items())
    models = ",\n".join(_dump_model(model) for model in manifest.models)
    saved = ",\n".join(_dump_saved(entries) for entries in manifest.saved)
    ended = f',\n "saved": [\n{saved}\n ]' if saved else ""
    if manifest.by_inputs:
        ended += f',\n "by_inputs": {as_json(list(manifest.by_inputs))}'
    return "{" + lines + ",\n " + f'"models": [\n{models}\n ]{ended}}}\n'


def _dump_saved(entries: SavedFile) -> str:
    return "  [" + ",\n   ".join(saved_files.dump(entries)) + "]"


def _dump_model(model: ModelWeights) -> str:
    leaves = [as_json(_leaf_json(leaf)) for leaf in model.leaves]
    unused = [as_json({"torch": entry.torch, "reason": entry.reason}) for entry in model.unused]
    ties = [as_json(_tie_json(tie)) for tie in model.ties]
    parts = [f'"class": {as_json(model.name)}', *map(_dump_list, ("leaves", "unused", "ties"), (leaves, unused, ties))]
    return "  {" + ",\n   ".join(parts) + "}"


def _tie_json(tie: Tie) -> dict[str, Any]:
    entry: dict[str, Any] = {"torch": tie.torch, "same_as": tie.same_as}
    return {**entry, "optional": True} if tie.optional else entry


def _dump_list(name: str, lines: list[str]) -> str:
    return f'"{name}": [' + "".join(f"\n    {line}{',' * (i < len(lines) - 1)}" for i, line in enumerate(lines)) + "]"


def _leaf_json(leaf: Leaf) -> dict[str, Any]:
    entry: dict[str, Any] = {"flax": leaf.flax, "torch": leaf.torch, "moves": [move.to_json() for move in leaf.moves]}
    entry["shape"] = leaf.shape
    if leaf.dtype is not None:
        entry["dtype"] = leaf.dtype
    if leaf.optional:
        entry["optional"] = True
    if leaf.torch_shape is not None:
        entry["torch_shape"] = leaf.torch_shape
    for name, pieces in (("take", leaf.take), ("put", leaf.put)):
        if pieces:
            entry[name] = [piece.to_json() for piece in pieces]
    if leaf.scale != 1:
        entry["scale"] = leaf.scale
    if leaf.shift:
        entry["shift"] = leaf.shift
    if leaf.copy:
        entry["copy"] = True
    return entry


# --- reading ----------------------------------------------------------------------------------------------------------


def loads(text: str) -> Manifest:
    """The manifest written in ``text``.

    Raises ManifestError such as ``models[0].leaves[3].moves[0]: unknown move 'permut', …``.
    """
    try:
        data = json.loads(text, object_pairs_hook=no_duplicates)
    except json.JSONDecodeError as error:
        raise ManifestError(f"line {error.lineno}: not JSON: {error.msg}") from None
    known = ("source", "target", "saved", "by_inputs")
    fields = fields_in(data, "the manifest", required=("format", "version", "models"), optional=known)
    if fields["format"] != FORMAT:
        reject("format", f"expected {FORMAT!r}, not {fields['format']!r}: is this a weight manifest?")
    if type(fields["version"]) is not int or fields["version"] != VERSION:
        reject("version", f"this version of the toolkit reads version {VERSION}, not {fields['version']!r}")
    models = [_model(model, where) for model, where in items_in(fields["models"], "models")]
    names = [model.name for model in models]
    for i, name in enumerate(names):
        if name in names[:i]:
            reject(f"models[{i}].class", f"a second model {name!r}: each class is described once")
    saved = [saved_files.load(entries, where) for entries, where in items_in(fields.get("saved", []), "saved")]
    source, target = text_in(fields.get("source", ""), "source"), text_in(fields.get("target", "linen"), "target")
    by_inputs = [text_in(line, where) for line, where in items_in(fields.get("by_inputs", []), "by_inputs")]
    return Manifest(source, target, tuple(models), tuple(saved), tuple(by_inputs))


def _model(data: object, where: str) -> ModelWeights:
    fields = fields_in(data, where, required=("class", "leaves"), optional=("unused", "ties"))
    leaves = [_leaf(leaf, place) for leaf, place in items_in(fields["leaves"], f"{where}.leaves")]
    unused = [
        Unused(**strings_in(entry, place, ("torch", "reason")))
        for entry, place in items_in(fields.get("unused", []), f"{where}.unused")
    ]
    ties = [_tie(entry, place) for entry, place in items_in(fields.get("ties", []), f"{where}.ties")]
    for i, tie in enumerate(ties):
        _same_wildcards(tie.torch, tie.same_as, f"{where}.ties[{i}]")
    return ModelWeights(text_in(fields["class"], f"{where}.class"), tuple(leaves), tuple(unused), tuple(ties))


def _tie(data: object, where: str) -> Tie:
    fields = fields_in(data, where, required=("torch", "same_as"), optional=("optional",))
    torch, same_as = (text_in(fields[name], f"{where}.{name}") for name in ("torch", "same_as"))
    return Tie(torch, same_as, flag_in(fields.get("optional", False), f"{where}.optional"))


def _leaf(data: object, where: str) -> Leaf:
    known = ("shape", "dtype", "optional", "torch_shape", "take", "put", "scale", "shift", "copy")
    fields = fields_in(data, where, required=("flax", "torch", "moves"), optional=known)
    flax, torch = text_in(fields["flax"], f"{where}.flax"), text_in(fields["torch"], f"{where}.torch")
    if len(flax.split("/")) < 2 or "" in flax.split("/"):
        reject(f"{where}.flax", f"{flax!r} is not a collection and a path, such as 'params/conv1/kernel'")
    take, put = (
        tuple(_piece(piece, place) for piece, place in items_in(fields.get(name, []), f"{where}.{name}"))
        for name in ("take", "put")
    )
    ends = [f"{{{piece.index}}}" for piece in put if isinstance(piece, Stack)]
    _same_wildcards(torch, flax + "".join(ends), where)
    leaf = Leaf(
        flax=flax,
        torch=torch,
        moves=tuple(_move(move, place) for move, place in items_in(fields["moves"], f"{where}.moves")),
        shape=_shape(fields.get("shape"), f"{where}.shape"),
        dtype=None if fields.get("dtype") is None else text_in(fields["dtype"], f"{where}.dtype"),
        optional=flag_in(fields.get("optional", False), f"{where}.optional"),
        torch_shape=_shape(fields.get("torch_shape"), f"{where}.torch_shape"),
        take=take,
        put=put,
        scale=number_in(fields.get("scale", 1.0), f"{where}.scale"),
        shift=number_in(fields.get("shift", 0.0), f"{where}.shift"),
        copy=flag_in(fields.get("copy", False), f"{where}.copy"),
    )
    if leaf.scale == 0:
        reject(f"{where}.scale", "a scale of 0 loses the weight")
    if any(piece.to_json()[0] in ("stack", "add") for piece in take):
        reject(f"{where}.take", "only a part or a slice can be taken of a torch tensor")
    try:
        shapes_between(leaf.moves, leaf.taken_shape, leaf.moved_shape)
        if leaf.taken_shape is not None:
            shape_after(leaf.moves, leaf.taken_shape)
    except ValueError as error:
        reject(where, f"the moves do not lead to the shape: {error}")
    return leaf


def _move(data: object, where: str) -> Move:
    try:
        return from_json(data)
    except ValueError as error:
        reject(where, str(error))


def _piece(data: object, where: str) -> Piece:
    try:
        return piece_from_json(data)
    except ValueError as error:
        reject(where, str(error))


def _shape(data: object, where: str) -> Shape | None:
    if data is None:
        return None
    if not isinstance(data, list) or not all(n is None or (type(n) is int and n >= 0) for n in data):
        reject(where, f"expected a list of lengths such as [3, 3, null, 32], not {as_json(data)}")
    return tuple(data)


def _same_wildcards(torch: str, other: str, where: str) -> None:
    here, there = set(WILDCARD.findall(torch)), set(WILDCARD.findall(other))
    if here != there:
        odd = ", ".join(f"{{{n}}}" for n in sorted(here ^ there))
        reject(where, f"{torch!r} and {other!r} must hold the same indices; only one of them has {odd}")
