"""Attributes that a module class sets in its constructor: submodules, settings, lists that are being filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node, Passage
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Instance, Items, Kind, Module, Never, Plain, SelfModule, Tensor, Tied, join
from migrate.lowering.expressions.elements import element_kind, only_option
from migrate.lowering.initial.named_weights import NamedWeights
from migrate.lowering.modules.constructors import COPYING, changed_after_given
from migrate.lowering.modules.default_parts import may_be_made, weighted, with_copies
from migrate.lowering.modules.given_parts import own_given
from migrate.lowering.modules.layer_weights import LayerWeights
from migrate.lowering.modules.module_lists import ModuleLists, bare_lambda, list_in_lines, taking_last
from migrate.lowering.modules.parameter_lists import PARAMETERS, ParameterLists
from migrate.lowering.modules.shared_modules import SharedModules
from migrate.lowering.modules.ties import without_bias
from migrate.lowering.plainer.new_parts import field_of
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every
from migrate.targets import linen

_OF_SETTINGS = (Kind, Plain, Never, Instance)
_SLIP = "require_grad"  # torch's attribute has an s: this one means nothing to it


class Attributes(NamedWeights, ParameterLists, ModuleLists, LayerWeights, SharedModules):
    """Assignments to attributes of a module."""

    def refuse_part_of_other(self, value: Expr) -> None:
        """Declines `self.conv = net.conv` of a module that a constructor has made under a name: Flax has not set it up
        by then."""
        root = nodes.root(value)
        if not isinstance(value, cst.Attribute) or not isinstance(root, cst.Name) or root.value == "self":
            return
        if isinstance(self.kind_of(root), Module) and isinstance(self.asked(value).kind, Module):
            raise Unsupported("MIG201", f"{nodes.code(value)}: a part of a module that Flax has not set up yet")

    def attribute_assignment(
        self, line: cst.SimpleStatementLine, target: cst.Attribute, value: Expr
    ) -> list[Statement] | None:
        """`self.x = ...` in a module class; None where it is an assignment like any other."""
        if self.context not in ("setup", "forward") or self.has_no_module:
            return None
        variable = self.variable_of(target)
        if variable is not None:
            given = self.array(value)
            return self.set_variable(line, variable, self.without_gradient(layouts.first(given), given.kind))
        path = nodes.dotted(target) or ""
        if self.context == "setup" and path.endswith(".weight") and path.startswith("self.") and path.count(".") > 1:
            started = self.starts_as_parameter(target, value)
            return self.tie(path, target, value, self.setting_behind(self.conditions)) if started is None else started
        freezes = path.startswith("self.") and path.endswith(".weight.requires_grad") and nodes.is_literal(value, False)
        if self.context == "setup" and freezes:
            return self.leave_still(cst.ensure_type(target.value, cst.Attribute))
        if self.context == "setup" and path.endswith(".data"):
            return self.weight_data(target.value, value)
        if self.context == "setup" and path.split(".")[0] in self.script.classes[self.cls].rebinds:
            return None
        base = self.expr(target.value)
        if isinstance(base.kind, Tensor) and target.attr.value == _SLIP and nodes.is_literal(value, False):
            return []
        if not isinstance(base.kind, SelfModule):
            noted = self.note_mark(target, value) if self.context == "setup" else None
            if noted is not None or self.is_copy_of_settings(target):
                return noted
            raise Unsupported("MIG204", f"{path} is changed after its module was made")
        facts = self.script.classes[self.cls]
        name = target.attr.value
        self.refuse_part_of_other(value)
        self.making = path
        if self.context == "forward" and _moved(value, path) and len(self.blocks) == 1:
            return self.moved_attribute(line, name, value)
        if self.context == "forward":
            raise Unsupported(
                "MIG201", f"self.{name} is set in {self.scope.rpartition('.')[2]}: a Flax module is frozen there"
            )
        if isinstance(value, cst.Call) and self.torch_name(value.func) == "torch.nn.Buffer":
            named = [cst.Arg(cst.SimpleString(f'"{name}"')), *value.args]
            return suites.with_comments(self.buffer(facts, value.with_changes(args=named)), line)
        parameter = self.parameter(facts, name, value)
        if parameter is not None:
            return suites.with_comments(parameter, line)
        value = self.settled_part(value) if self.context == "setup" else value
        listed = self.parameter_list(facts, line, name, value)
        if listed is not None:
            return listed
        return self.set_attribute(facts, line, target, value, self.usable(self.expr(value)))

    def settled_part(self, value: Expr) -> Expr:
        """`self.first if shared else nn.Linear(...)`: one of both where the constructor shows which. Where a setting
        tells, two names may have one weight or two, which is not followed."""
        if not isinstance(value, cst.IfExp):
            return value
        names = [nodes.dotted(side) or "" for side in (value.body, value.orelse)]
        held = [name for name in names if name.startswith("self.") and self.is_weighted_part(name)]
        if not held:
            return value
        told = self.env.definitions.get(value.test.value) if isinstance(value.test, cst.Name) else value.test
        literal = nodes.literal(told) if told is not None else ...
        facts = self.script.classes[self.cls]
        if literal is ... and facts.inherited and self.script.times_made(self.cls) == 0:
            return value
        sides = self.script.sides_taken.setdefault(nodes.code(value), set())
        sides.add(bool(literal))
        if literal is ... or len(sides) > 1:  # of one list of modules, some would have weights that others have not
            raise Unsupported("MIG204", f"{held[0]} or a part of its own, as `{nodes.code(value.test)}` says")
        return value.body if literal else value.orelse

    def is_weighted_part(self, path: str) -> bool:
        """Whether an attribute of this module is a part with weights."""
        return self.has_weights(self.script.classes[self.cls].seen.get(path.removeprefix("self.")))

    def moved_attribute(self, line: cst.SimpleStatementLine, name: str, value: Expr) -> list[Statement]:
        """`self.mask = self.mask.to(x)` in a forward pass: a variable, since the attribute stays as it is."""
        method = self.script.functions[self.scope].node
        taken = {*usage.stores(method.body), *(p.name.value for p in method.params.params)}
        own = f"{name}_" if name in taken else name
        lowered = self.expr(value)
        self.moved[name] = own
        return suites.assigned(line, nodes.name(own), layouts.first(lowered))

    def set_attribute(
        self, facts: ClassFacts, line: cst.SimpleStatementLine, target: cst.Attribute, value: Expr, lowered: Value
    ) -> list[Statement]:
        """`self.x = value` in a constructor."""
        name = target.attr.value
        if name in facts.sown:
            return []
        known = facts.children.get(name)
        lowered = beside_blocks(known, self.beside_last(known, lowered))
        kind = lowered.kind
        if isinstance(kind, Tied):
            self.note_attribute(facts, name, kind)
            return []
        if grows_later(facts, name):
            lowered = unfinished(lowered)
        elif isinstance(value, cst.Name) and not (isinstance(lowered.kind, Items) and lowered.kind.items == ()):
            lowered = Value(lowered.node, filled(lowered.kind))
            self.env.kinds[value.value] = lowered.kind
        kind = lowered.kind
        filling = isinstance(kind, Items) and kind.type == "modules"
        row = only_option(kind)
        rebound = isinstance(kind, Module) and name in facts.rebound and not isinstance(lowered.node, cst.Lambda)
        rebound = rebound and not (isinstance(row, ListNode) and row.named)  # which was filled before
        if filling or (rebound and name not in facts.seen):
            return self.hold(facts, line, name, lowered)
        node = bare_lambda(layouts.first(lowered))
        if name in facts.held:
            self.note_attribute(facts, name, kind)
            return suites.assigned(line, nodes.name(facts.held[name]), node)
        if name in facts.fields and (nodes.dotted(value) != name or name in facts.rebinds):
            holds = isinstance(kind, Module) or isinstance(facts.attributes.get(name), Module)  # where it is not None
            facts.renamed[name] = f"{name}_layer" if holds else f"{name}_value"
        passed = isinstance(value, cst.Name) and value.value in facts.fields
        facts.kept_as = {field: attribute for field, attribute in facts.kept_as.items() if attribute != name}
        if isinstance(value, cst.Name) and passed:
            facts.kept_as[value.value] = name
        if isinstance(kind, Module):
            given = {field for field in facts.fields if self.has_weights(facts.field_kinds.get(field))}
            given |= set(map(field_of, facts.replaced))
            if facts.holds_parts and (passed or given & set(usage.loads(value))):
                own_given(facts, kind)
            made_else = isinstance(value, cst.Name) and may_be_made(facts.method("__init__"), value.value, name)
            if isinstance(value, cst.Name) and value.value in given and made_else:
                del facts.kept_as[value.value]
                node = nodes.call(cst.Attribute(node, cst.Name("copy")))
            node = with_copies(node, given)
        self.note_places(facts, name, value)
        self.note_attribute(facts, name, kind, perhaps=passed or _or_none(value))
        source = (nodes.dotted(value) or "").removeprefix("self.")
        if source in facts.parameters and nodes.dotted(value) == f"self.{source}":
            facts.ties[name] = source
        flag = nodes.literal(node)
        if isinstance(flag, bool) and name in facts.certain - facts.rebound:
            facts.flags[name] = flag
        if any(key.split(".")[0] == name and "." in key for key in facts.ties.keys() - facts.told_ties):
            return self.tied_bias(facts, name, lowered)
        if f"{name}.weight" in facts.told_ties and isinstance(node, cst.Call):
            stored = self.stored_attribute(facts, target)
            return [*suites.assigned(line, stored, without_bias(node)), *self.tied_bias(facts, name, lowered)]
        stored = self.stored_attribute(facts, target)
        return [*suites.assigned(line, stored, node), *self.made_early(facts, name, stored)]

    def has_weights(self, kind: Kind | None) -> bool:
        """Whether what a field holds is a module with weights: a layer without any is a function in Flax."""
        options = kind.options if isinstance(kind, Module) else ()
        return bool(options) and all(weighted(self.script, option) for option in options)

    def beside_last(self, known: Node | None, value: Value) -> Value:
        """A function that wants channels first, where the attribute may also be a layer that wants them last (an
        upsampling or a transposed convolution): it moves them itself."""
        others = [option.passage for option in known.children] if isinstance(known, ChoiceNode) else []
        last = next((found for found in others if (found.entry, found.exit) == ("last", "last") and found.rank), None)
        option = value.kind.options[0] if isinstance(value.kind, Module) and len(value.kind.options) == 1 else None
        plain = isinstance(option, LayerNode) and not option.weights and option.passage == Passage()
        if last is None or not plain or not isinstance(option, LayerNode):
            return value
        moved = linen.channels_last(taking_last(value.node, last.rank), last.rank)
        node = nodes.expression("lambda x: {x}", x=moved)
        return Value(node, Module((replace(option, passage=last),)))

    def stored_attribute(self, facts: ClassFacts, target: cst.Attribute) -> cst.Attribute:
        """`self.x` under the name that the attribute has in the output."""
        renamed = facts.renamed.get(target.attr.value)
        return target.with_changes(attr=cst.Name(renamed)) if renamed else target

    def is_copy_of_settings(self, target: cst.Attribute) -> bool:
        """Whether an attribute is of a variable that only has copies of settings, `own = copy.copy(config)`, each as it
        is by the time that a part is made with it."""
        root, method = nodes.root(target), self.script.classes[self.cls].method(self.scope.rpartition(".")[2])
        if self.context != "setup" or not isinstance(root, cst.Name) or method is None:
            return False
        body, name = suites.suite_of(method.body.body), root.value
        values = [one.value for one in every(method, cst.Assign) if nodes.dotted(one.targets[0].target) == name]
        copies = [one for one in values if isinstance(one, cst.Call) and nodes.code(one.func) in COPYING and one.args]
        settings = all(type(self.kind_of(one.args[0].value)) in _OF_SETTINGS for one in copies)
        only = len(values) == len(copies) == usage.stores(method.body).count(name) > 0
        return only and settings and not changed_after_given(body, name)

    def note_attribute(self, facts: ClassFacts, name: str, kind: Kind, perhaps: bool = False) -> None:
        """Remembers what an attribute is, over all that it may be set to, and its modules. `perhaps`: it may also be
        None."""
        if isinstance(kind, Items) and kind.type != "modules" and isinstance(kind.joined(), Module):
            raise Unsupported(
                "MIG201", f"self.{name} is a plain list of modules, which torch does not register; use nn.ModuleList"
            )
        before = facts.seen.get(name, Never())
        if isinstance(before, Module) and isinstance(kind, Items) and kind.items == ():
            kind = Module((ListNode((), "_"),))  # an empty list in the place of one of modules
        whole = join(before, kind)
        facts.seen[name] = whole
        if isinstance(whole, Module):
            sure = name in facts.certain and len(whole.options) == 1 and not perhaps
            facts.children[name] = whole.options[0] if sure else ChoiceNode(whole.options)
        elif isinstance(kind, Module) or isinstance(before, Module):
            raise Unsupported("MIG201", f"self.{name} is a module in one case and something else in another")

    def note_targets(self, targets: Sequence[cst.CSTNode], kind: Kind) -> None:
        """Attributes that are set together with others: `self.a, b = ...`, `self.a = b = ...`."""
        facts = self.script.classes[self.cls]
        for target in targets:
            for name in usage.attributes_in(target):
                plain = kind if isinstance(target, cst.Attribute) else self.kind_of_name(f"self.{name}")
                if name in facts.fields:
                    facts.renamed[name] = f"{name}_value"
                self.note_attribute(facts, name, plain)

    # -- attributes that are not final yet ----------------------------------------------------------------------------

    def hold(self, facts: ClassFacts, line: cst.SimpleStatementLine, name: str, value: Value) -> list[Statement]:
        """An attribute that is filled or replaced later: a variable until then, since Flax freezes attributes."""
        other = _other_name(name, value.kind)
        method = facts.method(self.scope.rpartition(".")[2])
        taken = {*facts.fields, *self.env.kinds, *(usage.stores(method.body) if method is not None else ())}
        local = other if name in taken else name
        facts.held[name] = local
        if name in facts.seen:
            facts.otherwise[name] = facts.seen[name]
        self.opened.append(name)
        self.env.kinds[local] = value.kind
        self.note_held(facts, name, value.kind)
        return suites.assigned(line, nodes.name(local), value.node)

    def note_held(self, facts: ClassFacts, name: str, kind: Kind) -> None:
        """What a held attribute is by now. A list counts for the class once it is whole."""
        facts.seen[name] = kind
        self.env.kinds[facts.held[name]] = kind
        if isinstance(kind, Module):
            self.note_attribute(facts, name, kind)

    def released(self, names: Sequence[str]) -> list[Statement]:
        """The assignments that make attributes of what was held."""
        facts = self.script.classes[self.cls]
        made: list[Statement] = []
        for name in names:
            local, kind = facts.held.pop(name), facts.seen[name]
            if isinstance(kind, Items) and kind.type == PARAMETERS:
                facts.attributes[name] = facts.seen[name] = Items(None, kind.joined())
            elif isinstance(kind, Items):
                facts.seen[name] = facts.otherwise.pop(name, Never())
                self.note_attribute(facts, name, filled(kind))
            if name in facts.fields:
                facts.renamed[name] = _other_name(name, kind)
            made.append(nodes.statement(f"self.{facts.renamed.get(name, name)} = {local}"))
        return made

    def is_held(self, target: cst.CSTNode) -> bool:
        """Whether an attribute is a variable by now."""
        path = nodes.dotted(target) or ""
        return path.startswith("self.") and path.removeprefix("self.") in self.script.classes[self.cls].held

    def grow(self, facts: ClassFacts, node: cst.Call) -> list[Statement] | None:
        """`self.x.append(module)`."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _GROWING:
            return None
        name = (nodes.dotted(func.value) or "").removeprefix("self.")
        local, kind = facts.held.get(name), facts.seen.get(name)
        if local is None or not isinstance(kind, Items):
            return None
        if kind.type == PARAMETERS:
            return self.appended(facts, name, node)
        values = [self.expr(arg.value) for arg in node.args]
        if (self.cls, name) in self.script.mixed_lists and func.attr.value != "extend":
            values[-1] = self.moving_itself(values[-1])
        self.note_listed([arg.value for arg in node.args])
        self.note_held(facts, name, self.grown(kind, func.attr.value, values[-1], node))
        args = [bare_lambda(layouts.first(value)) for value in values]
        return [cst.SimpleStatementLine([cst.Expr(nodes.call(f"{local}.{func.attr.value}", *args))])]

    def grown(self, kind: Items, method: str, value: Value, node: cst.CSTNode) -> Kind:
        """A list of modules with one or several more."""
        added = filled(value.kind) if method != "extend" else value.kind
        if method == "extend" and isinstance(added, Items):
            added = added.joined()
        elif method == "extend" and isinstance(added, Module):
            added = element_kind(added)
        if isinstance(added, Never):
            return kind
        if not isinstance(added, Module):
            raise Unsupported("MIG201", f"{nodes.code(node)}: not known to be a module")
        return Items(None, join(kind.joined(), added), "modules")


def beside_blocks(known: Node | None, value: Value) -> Value:
    """Layers in a row that want channels last, where the attribute may also be a module of the script's own, which has
    them first: they move them themselves."""
    others = known.children if isinstance(known, ChoiceNode) else ()
    options = value.kind.options if isinstance(value.kind, Module) else ()
    row = options[0] if len(options) == 1 else None
    if not any(isinstance(other, ClassNode) for other in others) or not isinstance(row, ListNode):
        return value
    made = value.node.args[0] if isinstance(value.node, cst.Call) and value.node.args else None
    if made is None or not isinstance(made.value, cst.List):
        return value
    if row.dynamic or (row.passage.entry, row.passage.exit) != ("last", "last"):
        return value
    x, rank = nodes.name("x"), row.passage.rank
    moves = [nodes.expression("lambda x: {x}", x=move(x, rank)) for move in (linen.channels_last, linen.channels_first)]
    layers = [moves[0], *(element.value for element in made.value.elements), moves[1]]
    tree = replace(row, children=(LayerNode(""), *row.children, LayerNode("")), passage=Passage())
    return Value(value.node.with_deep_changes(made, value=list_in_lines(layers)), Module((tree,)))


def grows_later(facts: ClassFacts, name: str) -> bool:
    """Whether the constructor of a class puts more into a list after it has made it."""
    init = facts.method("__init__")
    return init is not None and grows_in([init.body], f"self.{name}")


def grows_in(code: Sequence[cst.CSTNode], path: str) -> bool:
    """Whether code puts more into the list at a path."""
    added = [nodes.dotted(one.target) for each in code for one in every(each, cst.AugAssign)]
    return path in added or any(f"{path}.{method}" in usage.paths(each) for each in code for method in _GROWING)


def filled(kind: Kind) -> Kind:
    """A list of modules that has all that it gets, as a module of its own."""
    if not isinstance(kind, Items) or kind.type != "modules":
        return kind
    element = kind.joined()
    return Module((ListNode(element.options if isinstance(element, Module) else (), "_", dynamic=True),))


def unfinished(value: Value) -> Value:
    """A list of modules that has some already, and gets more."""
    option = only_option(value.kind)
    if not isinstance(option, ListNode) or option.infix != "_" or option.keys:
        return value
    return Value(value.node, Items(None, element_kind(Module((option,))), "modules"))


def _other_name(name: str, kind: Kind) -> str:
    return f"{name}_list" if isinstance(kind, Items) else f"{name}_layer"


def _or_none(value: Expr) -> bool:
    """Whether an expression is None in one of two cases."""
    return isinstance(value, cst.IfExp) and any(nodes.is_literal(side, None) for side in (value.body, value.orelse))


def _moved(value: Expr, path: str) -> bool:
    """Whether a value is an attribute on another device or of another type, or None where that is None."""
    if isinstance(value, cst.IfExp):
        return _or_none(value) and any(_moved(side, path) for side in (value.body, value.orelse))
    func = value.func if isinstance(value, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in _MOVES and nodes.dotted(func.value) == path


_GROWING = ("append", "extend", "insert")
_MOVES = ("to", "type", "type_as", "float", "half", "cuda", "cpu")
