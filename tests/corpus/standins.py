"""What a public script expects around it and a test machine lacks: datasets, loggers, a terminal, the network.

`install()` puts stand-ins in their places, on both sides of a comparison; `parity --prelude` runs it before the script.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import sys
import types
from collections.abc import Sequence
from typing import Any

Setup = str | Sequence[Any]  # the name of a function of `setups`, or the name and its keyword arguments


def install(setups: Sequence[Setup] = ()) -> None:
    """Puts every stand-in in its place, then makes the files that `setups` name, in the working folder."""
    from tests.corpus import setups as files

    _loggers()
    _plots()
    _terminal()
    _torchvision()
    for setup in setups:
        name, arguments = (setup, {}) if isinstance(setup, str) else setup
        getattr(files, name)(**arguments)


class Anything:
    """Takes every call, attribute, loop and index, and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __setattr__(self, name: str, value: Any) -> None: ...

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def __iter__(self) -> Any:
        return iter(())

    def __getitem__(self, key: Any) -> Any:
        return self

    def __setitem__(self, key: Any, value: Any) -> None: ...


class _StandIn(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


def module(name: str, attributes: dict[str, Any] | None = None, *, force: bool = False) -> None:
    """A module in the place of one that is not installed, or of any with `force`."""
    if not force and _installed(name):
        return
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        path = ".".join(parts[:end])
        if path not in sys.modules:
            made = _StandIn(path)
            made.__path__ = []
            made.__spec__ = importlib.util.spec_from_loader(path, loader=None)
            sys.modules[path] = made
            if end > 1:
                setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], made)
    for attribute, value in (attributes or {}).items():
        setattr(sys.modules[name], attribute, value)


def _installed(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _loggers() -> None:
    writer = type("SummaryWriter", (Anything,), {})
    module("tensorboard", force=True)
    module("torch.utils.tensorboard", {"SummaryWriter": writer}, force=True)
    module("tensorboardX", {"SummaryWriter": writer})
    module("wandb", {"run": Anything(), "config": Anything(), "init": Anything(), "log": Anything()}, force=True)
    module("visdom", {"Visdom": Anything})
    bars: dict[str, Any] = {"tqdm": Bar, "trange": lambda *arguments, **_: Bar(range(*arguments))}
    for name in ("tqdm", "tqdm.auto", "tqdm.notebook"):
        module(name, bars, force=True)


class Bar:
    """tqdm without its bar."""

    write = staticmethod(print)

    @staticmethod
    def set_lock(_: Any) -> None: ...

    def __init__(self, iterable: Any = None, *_: Any, **__: Any) -> None:
        self.iterable, self.n = iterable, 0

    def __iter__(self) -> Any:
        return iter(self.iterable)

    def __len__(self) -> int:
        return len(self.iterable)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def _plots() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name in ("show", "pause", "savefig"):
        setattr(plt, name, lambda *_, **__: None)
    module("IPython", {"display": Anything(), "get_ipython": lambda: None, "version_info": (9, 0)})
    module("matplotlib_inline", {"backend_inline": Anything()})


def _terminal() -> None:
    """`stty size` has an answer; tokenizer files need no download."""
    popen = os.popen
    vars(os)["popen"] = lambda command, *rest, **named: (
        io.StringIO("24 80\n") if "stty" in command else popen(command, *rest, **named)
    )
    encodings = {"get_encoding": lambda name: ByteTokens(), "encoding_for_model": lambda name: ByteTokens()}
    module("tiktoken", encodings)


class ByteTokens:
    """tiktoken's interface, a token a byte."""

    n_vocab, eot_token = 50257, 50256

    def encode(self, text: str, **_: Any) -> list[int]:
        return list(text.encode())

    encode_ordinary = encode

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token if token < 256 else ord("?") for token in tokens).decode(errors="replace")


def _torchvision() -> None:
    """torchvision with synthetic datasets; beside a CPU-only torch its import needs two operators to be declared."""
    import torch

    from tests.corpus.datasets import DATASETS

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    vars(sys.modules[__name__])["_library"] = library  # lives as long as its operators
    vision = importlib.import_module("torchvision")
    for name, dataset in DATASETS.items():
        for path in (
            "torchvision.datasets",
            *(f"torchvision.datasets.{part}" for part in ("mnist", "cifar", "folder")),
        ):
            owner = importlib.import_module(path)
            if hasattr(owner, name):
                setattr(owner, name, dataset)
    vision.utils.save_image = lambda *_, **__: None
    vision.transforms.Scale = vision.transforms.Resize
