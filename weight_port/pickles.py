"""Read torch's pickles without torch and without running anything that they ask for.

A pickle is a program whose instructions may call any importable function. Here nothing is imported: a short list of
names gives plain containers and *references* to tensors, every other name an inert placeholder (``Opaque``).
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Any, ClassVar

from weight_port.dtypes import DTYPES, STORAGES

# What one pickle may use. A checkpoint of 100,000 tensors with its optimizer has a tenth of it.
INSTRUCTIONS = 20_000_000
MEMO = 10_000_000
DEPTH = 10_000
RANK = 64  # axes of a tensor; torch has no more


@dataclass(frozen=True)
class StorageRef:
    """A block of elements stored elsewhere in the file under ``key``; ``numel`` elements of type ``dtype``."""

    key: str
    dtype: str
    numel: int


@dataclass(frozen=True)
class TensorRef:
    """A tensor that is still in the file: ``offset`` and ``stride`` count elements of ``dtype``, as in torch."""

    storage: StorageRef
    dtype: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class Opaque:
    """Stands for an object of any other class. It keeps what was given to it and does nothing.

    It takes every instruction a pickle can apply to an object: calls, state, items, appends.
    """

    origin = "?"
    args: tuple[Any, ...] = ()
    state: Any = None
    items: dict[Any, Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args

    def __call__(self, *args: Any, **kwargs: Any) -> Opaque:
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.items is None:
            self.items = {}
        self.items[key] = value

    def append(self, value: Any) -> None: ...

    def extend(self, values: Any) -> None: ...

    def add(self, value: Any) -> None: ...


class _Allowed:
    """A function that a pickle may call and cannot change (``BUILD`` sets attributes on whatever is on the stack)."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "_function", function)

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __setattr__(self, name: str, value: object) -> None:
        raise pickle.UnpicklingError("a pickle tried to change the reader")


@dataclass(frozen=True)
class _DType:
    name: str


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, dtype: str | None = None, metadata: Any = None) -> Any:
    shape, stride = tuple(shape), tuple(stride)
    numbers = (offset, *shape, *stride)
    if not isinstance(storage, StorageRef):
        return _opaque_class("torch", "tensor without a stored block")()
    if len(shape) > RANK:
        raise pickle.UnpicklingError(f"a tensor of {len(shape)} axes")
    if len(shape) != len(stride) or not all(type(n) is int and n >= 0 for n in numbers):
        raise pickle.UnpicklingError(f"a tensor with offset, shape and strides {offset}, {shape}, {stride}")
    if metadata:  # {"conj": True} or {"neg": True}: the stored numbers are not the tensor's
        return _opaque_class("torch", f"tensor with {', '.join(map(str, metadata))}")()
    return TensorRef(storage, dtype or storage.dtype, offset, shape, stride)


def _tensor_v2(
    storage: Any, offset: Any, shape: Any, stride: Any, _grad: Any = None, _hooks: Any = None, *more: Any
) -> Any:
    return _tensor(storage, offset, shape, stride, None, *more[:1])


def _tensor_v3(
    storage: Any, offset: Any, shape: Any, stride: Any, _grad: Any, _hooks: Any, dtype: Any, *more: Any
) -> Any:
    if not isinstance(dtype, _DType):
        return dtype if isinstance(dtype, Opaque) else _opaque_class("torch", "tensor of an unknown type")()
    return _tensor(storage, offset, shape, stride, dtype.name, *more[:1])


def _rebuild_from_type(function: Any, _type: Any, args: Any, *_state: Any) -> Any:
    return function(*args) if isinstance(function, _Allowed) else _opaque_class("torch", "tensor subclass")()


def _ordered(pairs: Iterable[tuple[Any, Any]] = ()) -> OrderedDict[Any, Any]:
    pairs = list(pairs)
    for key, _ in pairs:
        check_key(key)
    return OrderedDict(pairs)


def _set(items: Iterable[Any] = ()) -> frozenset[Any]:
    items = list(items)
    for item in items:
        check_key(item)
    return frozenset(items)


def _first(value: Any, *_: Any) -> Any:
    return value


# Everything else is opaque. The functions only build references; none of them touches a file or another module.
_GLOBALS: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _Allowed(_ordered),
    ("builtins", "set"): _Allowed(_set),
    ("builtins", "frozenset"): _Allowed(_set),
    ("__builtin__", "set"): _Allowed(_set),
    ("torch", "Size"): _Allowed(tuple),
    ("torch._utils", "_rebuild_tensor"): _Allowed(_tensor),
    ("torch._utils", "_rebuild_tensor_v2"): _Allowed(_tensor_v2),
    ("torch._utils", "_rebuild_tensor_v3"): _Allowed(_tensor_v3),
    ("torch._utils", "_rebuild_parameter"): _Allowed(_first),
    ("torch._utils", "_rebuild_parameter_with_state"): _Allowed(_first),
    ("torch._tensor", "_rebuild_from_type_v2"): _Allowed(_rebuild_from_type),
    ("torch._tensor", "_rebuild_from_type"): _Allowed(_rebuild_from_type),
}


def _opaque_class(module: str, name: str) -> type[Opaque]:
    return type(name.rpartition(".")[2] or "Opaque", (Opaque,), {"origin": f"{module}.{name}"})


class _Unpickler(pickle._Unpickler):
    """Never imports: ``find_class`` is the only door through which a pickle reaches a name, and this is all of it.

    Python's own unpickler rather than the one in C, since this one can be counted and stopped.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    storages: dict[str, StorageRef]
    memo: dict[int, Any]
    metastack: list[Any]
    stack: list[Any]

    def load(self) -> Any:
        self._instructions = 0
        return super().load()

    def count(self) -> None:
        """One more instruction. Raises UnpicklingError when the budget is spent."""
        self._instructions += 1
        if self._instructions > INSTRUCTIONS:
            raise pickle.UnpicklingError(f"it has more than {INSTRUCTIONS:,} instructions")
        if len(self.memo) > MEMO:
            raise pickle.UnpicklingError(f"it keeps more than {MEMO:,} objects")
        if len(self.metastack) > DEPTH:
            raise pickle.UnpicklingError(f"it nests deeper than {DEPTH:,}")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _GLOBALS:
            return _GLOBALS[module, name]
        if module in ("torch", "torch.cuda", "torch.storage"):
            if name in STORAGES:
                return _DType(STORAGES[name])
            if name in DTYPES:
                return _DType(name)
        return _opaque_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        if isinstance(pid, tuple) and pid and pid[0] == "module":  # the class of a pickled nn.Module, before torch 1.6
            return pid[1]
        if not (isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage"):
            raise pickle.UnpicklingError("a persistent reference that is not a storage")
        _, dtype, key, _location, numel, *view = pid
        if not (isinstance(dtype, _DType) and isinstance(key, str) and type(numel) is int and numel >= 0):
            return _opaque_class("torch", "storage of an unknown type")()
        if any(part is not None for part in view):
            return _opaque_class("torch", "storage that is a view")()
        return self.storages.setdefault(key, StorageRef(key, dtype.name, numel))


def _counted(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(unpickler: Any) -> Any:
        unpickler.count()
        return function(unpickler)

    return run


def _checked(function: Callable[[Any], Any], keys: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Any]:
    """An instruction that hashes objects, after a look at them: the hash of nested tuples may take for ever."""

    def run(unpickler: Any) -> Any:
        for key in keys(unpickler):
            check_key(key)
        return function(unpickler)

    return run


def check_key(key: Any, depth: int = 0) -> None:
    """Raise UnpicklingError for an object whose hash might take long."""
    if isinstance(key, tuple | frozenset):
        if depth > 3 or len(key) > 64:
            raise pickle.UnpicklingError("a key that is a tuple of tuples")
        for part in key:
            check_key(part, depth + 1)


_PLAIN_BUILD: Callable[[Any], None] = pickle._Unpickler.dispatch[pickle.BUILD[0]]


def _build(unpickler: Any) -> None:
    """BUILD sets attributes: of placeholders and plain containers, never of a tensor or a type."""
    if isinstance(unpickler.stack[-2], TensorRef | StorageRef | _DType):
        unpickler.stack.pop()
        return
    _PLAIN_BUILD(unpickler)


def _dispatch() -> None:
    table = _Unpickler.dispatch
    checks: dict[bytes, Callable[[Any], Iterable[Any]]] = {
        pickle.SETITEM: lambda u: u.stack[-2:-1],
        pickle.SETITEMS: lambda u: u.stack[::2],
        pickle.DICT: lambda u: u.stack[::2],
        pickle.ADDITEMS: lambda u: u.stack,
        pickle.FROZENSET: lambda u: u.stack,
    }
    for code, keys in checks.items():
        table[code[0]] = _checked(table[code[0]], keys)
    table[pickle.BUILD[0]] = _build
    for code, function in list(table.items()):
        table[code] = _counted(function)


_dispatch()


def load(file: IO[bytes], storages: dict[str, StorageRef] | None = None) -> Any:
    """The next pickle of ``file``, which is left just behind it; the blocks it refers to are added to ``storages``.

    Raises pickle.UnpicklingError for anything unfit.
    """
    unpickler = _Unpickler(file, encoding="utf-8")
    unpickler.storages = {} if storages is None else storages
    try:
        return unpickler.load()
    except Exception as error:  # a hostile or cut-off pickle can fail in every way that Python has
        reason = str(error) or type(error).__name__
        raise pickle.UnpicklingError(reason) from None


def loads(data: bytes) -> Any:
    """The pickle in ``data``."""
    return load(io.BytesIO(data))
