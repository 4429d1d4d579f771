"""Names of functions, classes and scopes across the files of a project.

The module scope of a file is called after the file, "models/resnet:"; that of a script on its own, or of the script
that a project was asked for, is "". What stands in it is called "models/resnet:ResNet.forward".
"""

from __future__ import annotations

import re

FILE = ":"  # ends the name of a file's module scope
_OR = " | "  # between the classes of which a model has one


def inside(scope: str, name: str) -> str:
    """The name of what `scope` defines as `name`."""
    return f"{scope}{name}" if is_module(scope) else f"{scope}.{name}"


def scopes_around(scope: str) -> list[str]:
    """A scope and those that it is defined in, the module's left out, from the inside."""
    file, rest = file_of(scope), spelled(scope)
    parts = rest.split(".") if rest else []
    return [file + ".".join(parts[:number]) for number in range(len(parts), 0, -1)]


def is_module(scope: str) -> bool:
    """Whether a scope is the module scope of a file."""
    return not scope or scope.endswith(FILE)


def file_of(name: str) -> str:
    """The module scope of the file in which something is defined."""
    file, colon, _ = name.rpartition(FILE)
    return file + colon


def spelled(name: str) -> str:
    """A name as its own file spells it."""
    return name.rpartition(FILE)[2]


def path_of(scope: str) -> str:
    """The file of a module scope, as a message names it."""
    return f"{scope.removesuffix(FILE)}.py"


def either(*classes: str) -> str:
    """The class of a model that has one of several classes, told as the script runs: "LSTM | Transformer"."""
    return _OR.join(sorted({option for cls in classes for option in options(cls)}))


def options(cls: str) -> list[str]:
    """The classes of which a model has one: mostly that one."""
    return cls.split(_OR)


def is_chosen(cls: str) -> bool:
    """Whether the class of a model is told as the script runs."""
    return _OR in cls


def spelled_options(cls: str) -> str:
    """Such classes as a message names them."""
    return " or ".join(map(spelled, options(cls)))


def snake_case(name: str) -> str:
    """The name of a class in the words of a function: "LayerNorm" is "layer_norm"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
