"""What the drivers of both frameworks share: loading the file, the recipe, the arguments, the order of outputs."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from parity import inputs as model_inputs
from parity.codes import ParityError

MODES = (False, True, True, False)  # training, at each step


@dataclass(frozen=True)
class Subject:
    """What a driver is told. `file` lies beside the driver, or is the module `module` of a library, which is in the
    folder `library` where it is not installed here; `recipe` may say how to build and to feed the model."""

    file: str
    model: str
    arguments: str = ""
    inputs: str = ""
    recipe: str | None = None
    weights: str | None = None
    seed: int = 0
    module: str = ""
    library: str = ""

    @staticmethod
    def read(path: str | Path) -> Subject:
        return Subject(**json.loads(Path(path).read_text(encoding="utf-8")))


def imported(file: str) -> ModuleType:
    """A file as a module of its own name, or as the module of its package; a file named like a package that is loaded
    (torch.py) under another."""
    folder = Path(file).resolve().parent
    name = Path(file).stem
    if not Path(file).is_absolute() and "/" in file and (folder / "__init__.py").is_file():
        while (folder / "__init__.py").is_file():
            folder, name = folder.parent, f"{folder.name}.{name}"
        sys.path.insert(0, str(folder))
        return importlib.import_module(name.removesuffix(".__init__"))
    name = f"{name}_model" if name in sys.modules else name
    spec = importlib.util.spec_from_file_location(name, Path(file).resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Driven:
    """The class, its constructor's arguments and its inputs."""

    def __init__(self, config: str) -> None:
        self.subject = Subject.read(config)
        if self.subject.library:
            sys.path.insert(0, self.subject.library)
        named = self.subject.module
        module = importlib.import_module(named) if named else imported(self.subject.file)
        self.cls: Any = getattr(module, self.subject.model, None)
        if self.cls is None:
            raise ParityError("PAR211", f"{self.subject.file} has no {self.subject.model}")
        self.recipe: Any = imported(self.subject.recipe) if self.subject.recipe else None

    def model(self, framework: str) -> Any:
        build = getattr(self.recipe, f"{framework}_model", None)
        if build is not None:
            return build(self.cls)
        args, kwargs = self._arguments()
        return self.cls(*args, **kwargs)

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        if hasattr(self.recipe, "arguments"):
            return self.recipe.arguments()
        try:
            call = ast.parse(f"f({self.subject.arguments})", mode="eval").body
            assert isinstance(call, ast.Call)
            keywords = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
            return [ast.literal_eval(arg) for arg in call.args], keywords
        except (SyntaxError, ValueError) as error:
            raise ParityError("PAR211", f"--args {self.subject.arguments!r}: {error}; use --recipe") from None

    def inputs(self) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
        if hasattr(self.recipe, "inputs"):
            made = self.recipe.inputs(np.random.RandomState(self.subject.seed))
            return ([], made) if isinstance(made, dict) else (list(made), {})
        return model_inputs.arrays(model_inputs.parse(self.subject.inputs), self.subject.seed)


def leaves(output: Any) -> Iterator[Any]:
    """The arrays of an output in an order that both frameworks share: dictionaries by key."""
    if hasattr(output, "keys") and hasattr(output, "__getitem__"):
        for key in sorted(output.keys()):
            yield from leaves(output[key])
    elif isinstance(output, (list, tuple)):
        for item in output:
            yield from leaves(item)
    elif hasattr(output, "dtype"):
        yield output
    elif hasattr(output, "__dataclass_fields__"):
        for name in output.__dataclass_fields__:
            yield from leaves(getattr(output, name))
