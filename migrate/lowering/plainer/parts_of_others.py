"""Parts that a constructor takes out of another model, which it makes for that alone:

    resnet = resnet18()
    modules = list(resnet.children())[:-1]
    self.body = nn.Sequential(*modules)

Each part is written as a copy under its own name, `nn.Sequential(copy.deepcopy(resnet.conv1), ...)`: the same, since
nothing else has the other model, and no part of it is taken twice. `taken_parts.py` says what such a copy is in Flax.
"""

from __future__ import annotations

import libcst as cst

from migrate.known.constructed import ClassNode
from migrate.known.facts import ClassFacts, FunctionFacts
from migrate.known.kinds import Function, Model, ModuleClass
from migrate.known.script import Script
from migrate.lowering.expressions.elements import only_option
from migrate.lowering.models.borrowed_models import called_kind
from migrate.lowering.plainer.models_named_first import with_models_named, with_wholes_kept
from migrate.lowering.plainer.parts_written import Taking, maker
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr

_ROW = "torch.nn.Sequential"
_LISTS = ("list", "tuple")
_INNER = (cst.For, cst.While, cst.BaseComp, cst.Lambda, cst.FunctionDef)


class PartsOfOthers(Scope):
    """Constructors that take the parts of another model."""

    def with_parts_of_others(self, facts: ClassFacts | FunctionFacts, init: cst.FunctionDef) -> cst.FunctionDef:
        """A constructor that names each part which it takes; itself where it takes none, or they are not known."""
        init = with_wholes_kept(init, self._class_made, self.unit.source.positions)
        written, init = init, with_models_named(init, self._class_made, self.unit.source.positions)
        made = {name: cls for name, cls in self._made_once(init).items() if _may_be_opened(self.script, cls)}
        facts.taken_apart = {}
        if not made:
            return written
        taking = Taking(self.script, made, _bound_once(init), lambda func: self.torch_name(func) == _ROW)
        result = taking.written(init, self.unit.source.positions)
        if result is None:
            return written
        facts.taken_apart = {name: made[name] for name in taking.owners()}
        return result

    def with_parts_named(self, facts: FunctionFacts, node: cst.FunctionDef) -> cst.FunctionDef:
        """The same of a function that makes parts of modules."""
        made = self.with_parts_of_others(facts, node) if facts.builds else node
        return node if made is node else facts.parts_named.setdefault(nodes.code(made), made)

    def _made_once(self, init: cst.FunctionDef) -> dict[str, str]:
        """The names of a constructor that stand for a model which it makes, once: name -> class."""
        found: dict[str, str] = {}
        for name, value in _bound_once(init).items():
            call = maker(value)
            cls = "" if call is None else self._class_made(call)
            if cls:
                found[name] = cls
        return found

    def _class_made(self, call: cst.Call) -> str:
        """The class of the script's of which a call makes a module; "" of other calls."""
        kind = called_kind(self, call.func)
        if isinstance(kind, Function):
            result = self.script.functions[kind.name].result
            option = only_option(result)
            return result.cls if isinstance(result, Model) else option.cls if isinstance(option, ClassNode) else ""
        return kind.cls if isinstance(kind, ModuleClass) else ""


def _may_be_opened(script: Script, cls: str) -> bool:
    """Whether the parts of a model are there without its weights: it has none of its own."""
    facts = script.classes.get(cls)
    return facts is not None and not (
        facts.parameters or facts.variables or facts.ties or facts.shared or facts.extends
    )


def _bound_once(init: cst.FunctionDef) -> dict[str, Expr]:
    """The names that one statement of a constructor binds, outside of branches and loops."""
    stores = usage.stores(init.body)
    found: dict[str, Expr] = {}
    for statement in suites.suite_of(init.body.body):
        small = suites.alone(statement)
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            target = small.targets[0].target
            if isinstance(target, cst.Name) and stores.count(target.value) == 1:
                found[target.value] = small.value
    return found
