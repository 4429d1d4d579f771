"""Settings and constant buffers of a module that a script reads from outside: `model.hidden_size`.

Flax runs `setup` inside `init` and `apply` alone, so that nobody else sees what it sets. What follows from the
fields is a property.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Items, Kind, Number, Plain
from migrate.known.qualified import spelled
from migrate.known.script import Script
from migrate.lowering.modules.module_weights import CONSTANT, UNSAVED
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

# Functions of Python's that give the same value each time, and no object that somebody might change.
_PURE = {"abs", "bool", "float", "int", "len", "max", "min", "round", "str", "sum", "divmod", "pow"}
_MAKING = {"dict", "enumerate", "list", "range", "reversed", "sorted", "tuple", "zip"}  # objects, which may be changed
_CHANGEABLE = (cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp, cst.GeneratorExp, cst.Lambda)


def is_setting(kind: Kind) -> bool:
    """Whether an attribute holds no module, weight or buffer, as far as is known."""
    if isinstance(kind, Items):
        return is_setting(kind.joined())
    return isinstance(kind, Number | Plain) or type(kind) is Kind


def read_outside(script: Script, facts: ClassFacts, attribute: str) -> ClassFacts | None:
    """Notes that a script reads an attribute of a model. The class whose constructor sets it where nothing shows it;
    None where it is seen."""
    for holder in [facts, *(script.classes[base] for base in _bases(script, facts))]:
        init = holder.method("__init__")
        if init is None or not (_registers(script, holder, attribute) or _sets(holder, init, attribute)):
            continue
        holder.read_outside.add(attribute)
        return None if attribute in holder.shown else holder
    return None


def unseen(node: cst.Attribute, holder: ClassFacts) -> Unsupported:
    """The refusal of what a script reads of a model, and nothing shows."""
    told = f"what the constructor of {spelled(holder.name)} sets is not seen outside in Flax"
    return Unsupported("MIG301", f"{nodes.code(node)}: {told}")


def is_constant(classes: Sequence[ClassFacts | None], attribute: str) -> bool:
    """Whether an attribute of a model is a buffer that never changes, whatever its class."""
    return all(facts is not None and facts.buffers.get(attribute) in (CONSTANT, UNSAVED) for facts in classes)


def _registers(script: Script, facts: ClassFacts, attribute: str) -> bool:
    """Whether a class itself makes such a buffer, and does not have it of its bases."""
    return attribute in facts.buffers and not any(attribute in script.classes[base].buffers for base in facts.bases)


def _sets(facts: ClassFacts, init: cst.FunctionDef, attribute: str) -> bool:
    return attribute not in facts.fields and attribute in usage.attributes_set(init)


def _bases(script: Script, facts: ClassFacts) -> list[str]:
    return [found for base in facts.bases for found in [base, *_bases(script, script.classes[base])]]


def taken_out(
    facts: ClassFacts,
    body: Sequence[Statement],
    is_formula: Callable[[str], bool],
    changed: AbstractSet[str],
) -> tuple[list[Statement], list[Statement]]:
    """What is left of a `setup` without the settings that are read from outside, and a property for each of these.
    is_formula: whether a name is that of a function of the script's that only reckons; changed: the attributes whose
    objects somebody changes."""
    facts.shown = set()
    if not facts.read_outside:
        return list(body), []
    read = _read_by(facts, body)
    stored = Counter(
        name for each in every(cst.Module(body), cst.AssignTarget) for name in usage.attributes_in(each.target)
    )
    own = Counter(usage.stores(body))
    left: list[Statement] = []
    properties: list[Statement] = []
    before: list[Statement] = []  # what variables of the constructor are, which follow from the fields as well
    for statement in body:
        set_here = _setting(statement)
        name, value = set_here or ("", None)
        told = name in read and name not in facts.fields and stored[name] == 1
        unknown = own.keys() - usage.stores(before)
        kept = name not in changed and isinstance(value, cst.DictComp | cst.Call)  # what is looked up
        if value is None or not told or not _follows(facts, value, unknown, is_formula, kept):
            left.append(statement)
            local = _variables(statement)
            once = all(own[name] == 1 for name in usage.stores(statement))
            if local is not None and once and _follows(facts, local, unknown, is_formula):
                before.append(statement.with_changes(leading_lines=[]))
            continue
        facts.shown.add(name)
        needed = _needed(before, value)
        made = suites.function(name, ["self"], [*needed, nodes.statement("return {v}", v=value)])
        properties.append(made.with_changes(decorators=[cst.Decorator(cst.Name("property"))]))
    return left, properties


def _read_by(facts: ClassFacts, body: Sequence[Statement]) -> set[str]:
    """The attributes that are read from outside, and those that they are made of."""
    made = [each for statement in body if (each := _setting(statement)) is not None]
    read = set(facts.read_outside)
    for name, value in reversed(made):
        read |= set(usage.attributes_of_self(value)) if name in read else set()
    return read


def _setting(statement: Statement) -> tuple[str, Expr] | None:
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return None
    names = usage.attributes_in(small.targets[0].target)
    return (names[0], small.value) if len(names) == 1 and isinstance(small.targets[0].target, cst.Attribute) else None


def _variables(statement: Statement) -> Expr | None:
    """What a statement sets variables of a constructor to: `channels, height, width = input_shape`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return None
    target = small.targets[0].target
    parts = nodes.elements(target) if isinstance(target, cst.Tuple) else [target]
    return small.value if all(isinstance(part, cst.Name) for part in parts) else None


def _needed(before: Sequence[Statement], value: Expr) -> list[Statement]:
    """Those of some statements that a value needs, itself or by what it needs."""
    wanted, needed = set(usage.loads(value)), list[Statement]()
    for statement in reversed(before):
        if wanted & set(usage.stores(statement)):
            needed.insert(0, statement)
            wanted |= set(usage.loads(statement))
    return needed


def reckons(function: cst.FunctionDef) -> bool:
    """Whether a function is one expression of numbers: it gives the same each time."""
    body = [one for one in suites.suite_of(function.body.body) if not suites.is_docstring(one)]
    small = body[0].body[0] if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Return) or small.value is None or function.decorators:
        return False
    return not any(True for _ in every(small.value, _CHANGEABLE)) and all(map(_is_pure, usage.calls(small.value)))


def _is_pure(call: cst.Call) -> bool:
    name = nodes.dotted(call.func) or ""
    if isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Call | cst.BinaryOperation):
        return True  # a method of what was just made: of an array, where that is pure
    return name in _PURE or (name.startswith(("math.", "np.", "jnp.")) and not name.startswith("np.random."))


def _is_made(call: cst.Call) -> bool:
    """Whether a call makes an object out of what it is given, or goes through the dict that an attribute is."""
    name = nodes.dotted(call.func) or ""
    return name in _MAKING or (name.startswith("self.") and name.endswith((".items", ".keys", ".values")))


def _follows(
    facts: ClassFacts, value: Expr, own: AbstractSet[str], is_formula: Callable[[str], bool], kept: bool = False
) -> bool:
    """Whether a value follows from the fields and what the file has, and is no object that might be changed. `kept`:
    nobody changes this one."""
    is_array = isinstance(value, cst.Call) and (nodes.dotted(value.func) or "").startswith("jnp.")
    changeable = not (is_array or kept) and any(True for _ in every(value, _CHANGEABLE))
    if own & set(usage.loads(value)) or changeable:
        return False
    known = {*facts.fields, *facts.shown}
    calls = [call for call in usage.calls(value) if not (kept and _is_made(call))]
    pure = all(_is_pure(call) or is_formula(nodes.dotted(call.func) or "") for call in calls)
    return pure and set(usage.attributes_of_self(value)) <= known
