"""Models that a script takes from an installed package: `torchvision.models.resnet18()`. The file that defines them is
rewritten along, beside the script, where it takes no more than helpers and layers from the rest of the package.

`models.__dict__[args.arch]` names a model as the program runs: the file is that of the model which it names unless the
command line says otherwise.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from migrate.files.imports import KNOWN, SUFFIX, Written, parsed
from migrate.syntax.command_line import option_name

PACKAGES = ("torchvision.models", "transformers")
LAYERS = "torchvision.ops."  # modules of a package known otherwise of which its own models are made
_NOT_SEARCHED = KNOWN | sys.stdlib_module_names
_MODEL = re.compile(r"Model$|For[A-Z]|LMHead|DoubleHeads")  # names of models among those of transformers
_ASKED_FOR_WEIGHTS = frozenset({"state_dict", "config"})
ANY = "*"  # in the place of a name that is only known as the program runs


@dataclass(frozen=True)
class Borrowed:
    """A `name` of a file of an installed package, and the `module` that the file becomes beside the script. `parts`:
    the text of that file where it is cut out of several."""

    path: Path
    package: str
    module: str
    name: str
    parts: str = ""

    @property
    def shown(self) -> str:
        """Where it is in its package."""
        return f"parts of {self.package}" if self.parts else f"{self.package.replace('.', '/')}/{self.path.name}"


def borrowed_names(text: str) -> dict[str, Borrowed]:
    """The names that a file takes from packages of models, as "torchvision.models.resnet18", with the file that defines
    each; "torchvision.models.*" for a name that is looked up, with that of the usual one. Raises SyntaxError."""
    if not any(package.partition(".")[0] in text for package in PACKAGES):
        return {}
    tree = parsed(text)
    known = _known_as(tree)
    made: dict[str, Borrowed] = {}
    left = _giving_weights_alone(tree, known)
    for package in PACKAGES:
        for qualified, name in _named(tree, known, package):
            file = None if qualified in left else _file_of(package, name)
            if file is not None:
                made[qualified] = file
    return made


def _giving_weights_alone(tree: ast.Module, known: Mapping[str, str]) -> set[str]:
    """The classes, qualified, of which a file makes objects, at `from_pretrained`, for nothing but their weights:
    `.state_dict()`, which torch's own give as well. It may ask for their settings, `.config`."""
    made: dict[str, list[ast.Call]] = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "from_pretrained":
            made.setdefault(_qualified(call.func.value, known), []).append(call)
    if not made:
        return set()
    mentions = Counter(_qualified(one, known) for one in ast.walk(tree) if isinstance(one, ast.Name | ast.Attribute))
    return {
        cls
        for cls, calls in made.items()
        if mentions[cls] == len(calls) and all(_asked_for_weights(tree, call) for call in calls)
    }


def _asked_for_weights(tree: ast.Module, made: ast.Call) -> bool:
    """Whether what a call makes, or the name that it gets, is only asked for its weights and its settings."""
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    asked = {id(node.value) for node in attributes if node.attr in _ASKED_FOR_WEIGHTS}
    if id(made) in asked:
        return True
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and node.value is made]
    names = [one.id for node in assigned for one in node.targets if isinstance(one, ast.Name)]
    read = [one for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
    return len(names) == 1 and all(id(one) in asked for one in read if one.id in names)


def installed(package: str) -> list[str]:
    """The folders of a package of this environment, which is not imported for that."""
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    return list(found.submodule_search_locations or ()) if found is not None else []


def looked_up(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """The module and the name in `module.__dict__[name]`, `vars(module)[name]` or `getattr(module, name)`."""
    match node:
        case ast.Subscript(value=ast.Attribute(value=module, attr="__dict__"), slice=name):
            return module, name
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"), args=[module]), slice=name):
            return module, name
        case ast.Call(func=ast.Name(id="getattr"), args=[module, name]):
            return module, name
    return None


def asked_of_modules(text: str, modules: Iterable[str]) -> set[tuple[str, str]]:
    """What a file asks of modules inside packages, of those that it imports whole: `layers.DropPath` after
    `import timm.layers as layers`, as the module and the name. Raises SyntaxError."""
    inside = {name for name in modules if "." in name and name.partition(".")[0] not in _NOT_SEARCHED}
    if not inside:
        return set()
    tree = parsed(text)
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    known = {alias.asname or alias.name.partition(".")[0]: _bound(alias) for alias in imports if alias.name in inside}
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _root(node) in known]
    pairs = {(module, name) for module, _, name in (_qualified(one, known).rpartition(".") for one in attributes)}
    return {(module, name) for module, name in pairs if module in inside}


def _root(node: ast.expr) -> str:
    """The name that a chain of attributes starts from; "" where it starts from something else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _known_as(tree: ast.Module) -> dict[str, str]:
    """What imports bind: name -> qualified name."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {alias.asname or alias.name.split(".")[0]: _bound(alias) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return known


def _bound(alias: ast.alias) -> str:
    return alias.name if alias.asname else alias.name.split(".")[0]


def _named(tree: ast.Module, known: Mapping[str, str], package: str) -> Iterator[tuple[str, str]]:
    """What a file names of a package, qualified, and the name of what that is as a rule."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            qualified = _qualified(node, known)
            if qualified.startswith(f"{package}."):
                yield qualified, qualified.rpartition(".")[2]
        if isinstance(node, ast.Call):
            found = looked_up(node.func)
            usual = _usual(tree, found[1]) if found is not None and _qualified(found[0], known) == package else None
            if usual is not None:
                yield f"{package}.{ANY}", usual


def _qualified(node: ast.expr, known: Mapping[str, str]) -> str:
    root, dot, rest = ast.unparse(node).partition(".")
    return known.get(root, "") + dot + rest


def _usual(tree: ast.Module, node: ast.expr) -> str | None:
    """The text that an expression is unless the command line says otherwise."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    option = _option(tree, ast.unparse(node).rpartition(".")[2]) if isinstance(node, ast.Attribute) else None
    default = next((k.value for k in option.keywords if k.arg == "default"), None) if option is not None else None
    return default.value if isinstance(default, ast.Constant) and isinstance(default.value, str) else None


def _option(tree: ast.Module, name: str) -> ast.Call | None:
    """The call of `add_argument` that makes an option of the command line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            flags = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if name == option_name(flags):
                return node
    return None


def _file_of(package: str, name: str) -> Borrowed | None:
    """The file of an installed package that defines a name, where it takes no models from other files of it."""
    root, _, below = package.partition(".")
    if package == "transformers":
        return _file_of_transformers(name)
    for folder in installed(root):
        for path in sorted(Path(folder, *below.split(".")).glob(f"[!_]*{SUFFIX}")):
            text = path.read_text(encoding="utf-8")
            if f" {name}(" in text and name in _definitions(parsed(text)) and _stands_alone(parsed(text), package):
                return Borrowed(path, package, f"{root}_{path.stem}", name)
    return None


@cache
def _file_of_transformers(name: str) -> Borrowed | None:
    """The file of transformers that defines a model, as those are written since version 5."""
    if not _MODEL.search(name) or name.startswith("Auto"):
        return None
    for folder in map(Path, installed("transformers")):
        version = re.search(
            r'^__version__ = "(\d+)', (folder / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE
        )
        for path in sorted(folder.glob(f"models/*/modeling_*{SUFFIX}")) if version and int(version[1]) >= 5 else ():
            if f"\nclass {name}(" in path.read_text(encoding="utf-8"):
                module = f"transformers_{path.stem.removeprefix('modeling_')}"
                return Borrowed(path, f"transformers.models.{path.parent.name}", module, name)
    return None


def _definitions(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _stands_alone(tree: ast.Module, package: str) -> bool:
    """Whether a file takes nothing but private helpers, and layers, from the rest of its package."""
    written = (one for node in ast.walk(tree) for one in Written.of(node) if one.dots)
    return all(
        one.module.rpartition(".")[2].startswith("_")
        or all(name.startswith("_") for name in one.names)
        or is_of_layers(absolute_module(one, package))
        for one in written
    )


def is_of_layers(module: str) -> bool:
    """Whether a module, qualified, holds layers that the models of its package are made of."""
    return f"{module}.".startswith(LAYERS)


def absolute_module(written: Written, package: str) -> str:
    """The module that an import in a file of a package takes from."""
    if not written.dots:
        return written.module
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - written.dots + 1], *([written.module] if written.module else [])])
