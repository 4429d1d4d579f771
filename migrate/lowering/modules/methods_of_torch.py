"""Methods of a module that torch calls by itself, and a class of the script's has its own of: its mode, its weights."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Diagnostic, Severity, Unsupported
from migrate.known.facts import ClassFacts
from migrate.known.qualified import spelled
from migrate.known.states import MODE_IS_A_FIELD, MODES
from migrate.lowering.modules.changing_methods import CODE
from migrate.lowering.scope import Scope
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement

_TRAINED = "the weights of a Flax module are all that it makes"
_LOADED = "weights are loaded and saved here as they are"
_OF_WEIGHTS = {
    **dict.fromkeys(("parameters", "named_parameters", "requires_grad_"), _TRAINED),
    "zero_grad": "JAX keeps no gradients from step to step",
    **dict.fromkeys(("state_dict", "load_state_dict"), _LOADED),
}
_CHANGING = ("_load_from_state_dict", "_save_to_state_dict")

HOLDINGS = ("_modules", "_parameters", "_buffers", "__dict__")  # what a module of torch keeps its parts and settings in


def held_elsewhere(node: Expr) -> Unsupported:
    """What is said of those, `model._modules`."""
    return Unsupported("MIG301", f"{nodes.code(node)}: Flax keeps what a module holds elsewhere")


class MethodsOfTorch(Scope):
    """Such methods, refused where they would be missed."""

    def method_of_torch(self, facts: ClassFacts, node: cst.FunctionDef) -> list[Statement] | None:
        """What stands for such a method; None for other methods. A `train()`, which says what keeps another mode than
        the whole, goes where no layer cares."""
        name = node.name.value
        if name in _CHANGING:
            self.unit.report(Unsupported("MIG515", f"{spelled(facts.name)}.{name}()"), node)
            return []
        if name in MODES and not self.script.trains(facts.name):
            return []
        why = MODE_IS_A_FIELD if name in MODES else _OF_WEIGHTS.get(name)
        if why is None:
            return None
        return self.refused_method(node, Unsupported("MIG201", f"{spelled(facts.name)}.{name}() is its own: {why}"))

    def unless_changing(
        self, facts: ClassFacts, node: cst.FunctionDef, made: Statement, found: list[Diagnostic]
    ) -> Statement:
        """A method as it is made, with what was found in it; one note where it could not be converted since it changes
        the module, and nothing calls it."""
        if node.name.value not in self.script.changing_methods or not any(
            one.severity is Severity.ERROR for one in found
        ):
            return made
        del self.unit.diagnostics[-len(found) :]
        (refused,) = self.refused_method(node, Unsupported(CODE, f"{spelled(facts.name)}.{node.name.value}()"))
        return refused

    def refused_method(self, node: cst.FunctionDef, told: Unsupported) -> list[Statement]:
        """A method that says why it is not converted."""
        self.unit.report(told, node)
        refused = suites.refusal(told.code, told.message, suites.suite_of(node.body.body))
        decorators = [one for one in node.decorators if not nodes.code(one.decorator).startswith("torch.")]
        return [node.with_changes(decorators=decorators, body=suites.block_of(node.body, [refused]))]
