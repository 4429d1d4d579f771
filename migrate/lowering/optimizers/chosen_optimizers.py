"""Optimizers whose class is chosen as the script runs: `getattr(optim, args.optim)(model.parameters(), lr=args.lr)`.

The output makes each of them and takes the one that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import OptimizerClasses
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.optimizers.optimizers import MadeOptimizer, Optimizers
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.optimizers import OPTIMIZERS
from migrate.rules.rule import Value, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_MODULE = "torch.optim"


@dataclass(frozen=True)
class Choice:
    """The classes, by the keys that ask for them. `asked`: what is the key; of two, `test` tells whether the first."""

    classes: Mapping[str, str]
    asked: Expr | None = None
    test: Expr | None = None


class ChosenOptimizers(Optimizers, Binding):
    """Optimizers by name."""

    def chosen_optimizer(self, node: cst.Call) -> Value | None:
        """An optimizer of a class that is chosen by name; None for other calls."""
        choice = self.choice_of_classes(node.func)
        if choice is None:
            return None
        if choice.asked is None and choice.test is None:
            (name,) = choice.classes.values()
            return self.optimizer(name, node)
        if self.pending_place in self.script.cycled:
            raise Unsupported("MIG302", f"{nodes.code(node)}: one of several optimizers, with a cycle of the momentum")
        taking = {key: name for key, name in choice.classes.items() if _takes(name, node)}
        made = {key: self.optimizer_made(name, node) for key, name in taking.items()}
        if not made:
            raise Unsupported("MIG302", f"{nodes.code(node)}: no optimizer takes these arguments")
        return self.with_rates(self._chosen(choice, made), list(made.values()))

    def choice_of_classes(self, func: Expr) -> Choice | None:
        """What a function expression chooses from; None where that is not optimizers alone."""
        if isinstance(func, cst.Name) and self.env.kinds.get(func.value) == OptimizerClasses():
            definition = self.env.definitions.get(func.value)
            return None if definition is None else self.choice_of_classes(definition)
        if isinstance(func, cst.IfExp):
            pair = {"first": self.torch_name(func.body), "second": self.torch_name(func.orelse)}
            classes = {key: name for key, name in pair.items() if name in OPTIMIZERS}
            return Choice(classes, test=func.test) if len(classes) == len(pair) else None
        if isinstance(func, cst.Call) and nodes.dotted(func.func) == "getattr" and len(func.args) == 2:
            return self._attribute(func.args[0].value, func.args[1].value)
        if isinstance(func, cst.Subscript):
            return self._of_all(func) or self._entry(func)
        name = self.torch_name(func)
        return Choice({name: name}) if name in OPTIMIZERS else None

    def _attribute(self, owner: Expr, name: Expr) -> Choice | None:
        if self.torch_name(owner) != _MODULE:
            return None
        literal = nodes.literal(name)
        if isinstance(literal, str):
            torch = f"{_MODULE}.{literal}"
            return Choice({torch: torch}) if torch in OPTIMIZERS else None
        by_steps = {torch.rpartition(".")[2]: torch for torch, entry in OPTIMIZERS.items() if not entry.evaluates}
        return Choice(by_steps, asked=name)

    def _of_all(self, func: cst.Subscript) -> Choice | None:
        """`optim.__dict__[name]` and `vars(optim)[name]`; None of other subscripts."""
        index = func.slice[0].slice if len(func.slice) == 1 else None
        owner = (
            func.value.value if isinstance(func.value, cst.Attribute) and func.value.attr.value == "__dict__" else None
        )
        if isinstance(func.value, cst.Call) and nodes.dotted(func.value.func) == "vars" and len(func.value.args) == 1:
            owner = func.value.args[0].value
        return self._attribute(owner, index.value) if owner is not None and isinstance(index, cst.Index) else None

    def _entry(self, func: cst.Subscript) -> Choice | None:
        kind = self.kind_of(func.value) if isinstance(func.value, cst.Name) else None
        classes = self._classes(func.value) if isinstance(func.value, cst.Dict) else {}
        classes = dict(kind.by_key) if isinstance(kind, OptimizerClasses) else classes
        index = func.slice[0].slice if len(func.slice) == 1 else None
        return Choice(classes, asked=index.value) if isinstance(index, cst.Index) and classes else None

    def _classes(self, written: cst.Dict) -> dict[str, str]:
        """A dict of nothing but classes of optimizers, by its keys; empty for others."""
        classes: dict[str, str] = {}
        for element in written.elements:
            key = nodes.literal(element.key) if isinstance(element, cst.DictElement) else ...
            name = self.torch_name(element.value)
            if not isinstance(key, str) or name not in OPTIMIZERS or OPTIMIZERS[name].evaluates:
                return {}
            classes[key] = name
        return classes

    def names_classes(self, targets: Sequence[cst.CSTNode], value: Expr) -> bool:
        """Whether an assignment only names classes of optimizers to choose from: `OPTIMIZERS = {"sgd": optim.SGD}`.
        The output has them where one is made."""
        if len(targets) != 1 or not isinstance(targets[0], cst.Name) or self.context not in HOST_CONTEXTS:
            return False
        by_key = self._classes(value) if isinstance(value, cst.Dict) else {}
        if not by_key and self.choice_of_classes(value) is None:
            return False
        self.define(targets, value)
        self.bind(targets[0], OptimizerClasses(tuple(by_key.items())))
        return True

    def _chosen(self, choice: Choice, made: Mapping[str, MadeOptimizer]) -> Expr:
        """The one that is asked for, as an expression."""
        if choice.test is not None:
            first, second = (one.node for one in made.values())
            return cst.IfExp(self.node(choice.test), first, second)
        assert choice.asked is not None
        options = nodes.dict_of([(key, one.node) for key, one in made.items()])
        return nodes.expression("{options}[{name}]", options=options, name=self.node(choice.asked))


def _takes(name: str, node: cst.Call) -> bool:
    """Whether a class takes the arguments of a call; torch raises an error where it does not."""
    known = {parameter.name for parameter in signature(OPTIMIZERS[name].signature)}
    return all(arg.keyword is None or arg.keyword.value in known for arg in node.args)
