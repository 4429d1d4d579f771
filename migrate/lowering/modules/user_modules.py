"""Modules of the user's: their constructors, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode
from migrate.known.facts import ClassFacts, FunctionFacts, merge
from migrate.known.kinds import (
    UNKNOWN,
    VANISHING,
    Host,
    Items,
    Kind,
    Makers,
    Model,
    Module,
    ModuleClass,
    Never,
    Plain,
    join,
)
from migrate.known.qualified import spelled
from migrate.lowering.expressions.arguments import argument_names, placed
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.modules.builders import Builders
from migrate.lowering.modules.given_lists import given_as
from migrate.lowering.modules.layer_weights import LayerWeights
from migrate.lowering.modules.names_of_flax import called_so
from migrate.lowering.modules.options_by_name import OptionsByName
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_GOING_THROUGH = ("sum", "len", "max", "min", "enumerate", "zip", "list", "tuple", "sorted")
_CHANGING = frozenset({"update", "pop", "popitem", "setdefault", "clear"})  # a dict


class UserModules(OptionsByName, Builders, LayerWeights):
    """Constructors and calls of the user's modules."""

    def user_layer_call(self, node: cst.Call, callee: Value, classes: Sequence[str]) -> Value:
        """A call of a submodule of the user's, with any arguments."""
        values = [self.array(arg.value) for arg in node.args]
        result: Kind = Never()
        for cls in classes:
            facts = self.script.functions.get(f"{cls}.forward")
            if facts is None:
                result = UNKNOWN
                continue
            self.pass_kinds(facts, node.args, values)
            result = join(result, join(facts.returns, facts.overriding))
        pairs = zip(placed(node.args, values), values, strict=True)
        args = [arg for arg, value in pairs if not isinstance(value.kind, VANISHING)]
        made = Value(node.with_changes(func=callee.node, args=args), result if classes else UNKNOWN)
        return self.as_decorated(made, self.forwards(classes))

    def forwards(self, classes: Sequence[str]) -> list[FunctionFacts | None]:
        """The `forward` of user classes."""
        return [self.script.functions.get(f"{cls}.forward") for cls in classes]

    def forward_kind(self, classes: Sequence[str], written: Expr, argument: Kind) -> Kind:
        """What `forward` of user classes returns; the argument is remembered as one that it gets."""
        result: Kind = Never()
        for cls in classes:
            facts = self.script.functions.get(f"{cls}.forward")
            if facts is None:
                return UNKNOWN
            names = facts.parameter_names[1:]
            if names:
                merge(facts.found_params, names[0], argument)
                facts.found_given[names[0]] = facts.found_given.get(names[0], True) and self.gives(written)
                read = isinstance(written, cst.Name) and (
                    self.reads.count(written.value) > 1 or self.reads_later(written)
                )
                facts.found_kept |= {names[0]} if read else set()
            result = join(result, join(facts.returns, facts.overriding))
        return result

    def reads_later(self, name: cst.Name) -> bool:
        """Whether what a name stands for is read after this statement."""
        return name.value not in self.rebound and self.live(name.value)

    def construct_user(self, node: cst.Call, callee: Value, kind: ModuleClass) -> Value:
        """`Net(...)`: its arguments become dataclass fields, so lists become tuples, which can be hashed."""
        facts = self.script.classes[kind.cls]
        if facts.extends:
            return self.construct_extended(node, callee, facts)
        node = called_so(node, facts.other_names)
        args = []
        given = facts.given.setdefault(self.cls, {})
        for arg, name in zip(node.args, argument_names(node.args, facts.fields[: facts.positional]), strict=True):
            if self.says_nothing(facts, arg, name):
                continue
            if arg.keyword is not None and name not in facts.fields:
                facts.extra_given.add(name)
            if facts.extras and (arg.star == "**" or (arg.keyword is not None and name not in facts.fields)):
                raise Unsupported("MIG201", f"`{nodes.code(arg)}` for the **kwargs of {spelled(kind.cls)}")
            value = self.grafted_part(arg.value, self.usable(self.given(arg.value, kind.cls, node)), kind.cls)
            value = self.as_option(arg.value, value)
            for field in facts.fields if arg.star else [name] if name else []:
                given.setdefault(field, set()).add(nodes.code(self.written_dict(arg.value)))
            if name:
                merge(facts.field_kinds, name, self.handed_kind(arg.value, value.kind))
                facts.given_makers |= {name} if isinstance(value.kind, Makers | ModuleClass) else set()
                facts.given_lists |= {(name, type_) for type_ in given_as(self, arg.value, value.kind)}
                self.note_type(arg.value, facts.field_types.get(name, ""))
            if not isinstance(value.kind, VANISHING):
                args.append(arg.with_changes(value=self.field_value(value)))
            elif name and not isinstance(
                facts.field_kinds.get(name), VANISHING
            ):  # the class has the field all the same
                args.append(arg.with_changes(value=nodes.name("None")))
            if not self.cls and args:
                args[-1] = args[-1].with_changes(value=self.as_hashed(facts, name, arg.value, value, args[-1].value))
        if args and len(args) < len(node.args):
            args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        made = node.with_changes(func=callee.node, args=args)
        if not self.cls and not self.building:
            outermost = Model(kind.cls, mode=self.mode_with(node))
            return Value(made, Module((ClassNode(kind.cls),)) if self.holder else outermost)
        own: dict[str, Expr] = {}
        if self.cls:
            self.note_arguments(node, facts)
            passed = self.script.classes[self.cls].passed
            own |= passed.get((kind.cls, ""), {}) | passed.get((kind.cls, self.making), {})
        if self.script.trains(kind.cls) and self.has_no_module:
            made_in = spelled(self.scope)
            raise Unsupported("MIG404", f"{spelled(kind.cls)} is made in {made_in}, apart from its weights and mode")
        if self.script.trains(kind.cls):
            own["training"] = self.mode_expression(kind.cls)
        if kind.cls in self.script.half:
            own["dtype"] = nodes.expression("self.dtype")
        made = made.with_changes(args=nodes.extended(args, own))
        if self.context == "forward":
            made = self.made_in_passing(made, kind.cls)
        return Value(made, Module((ClassNode(kind.cls),)))

    def as_option(self, written: Expr, value: Value) -> Value:
        """An argument that is an option of the command line, `args.hidden_sizes`, as the list that argparse makes."""
        option = written.attr.value if isinstance(written, cst.Attribute) and not self.cls else ""
        listed = type(value.kind) is Kind and option in self.script.list_options
        return replace(value, kind=Items(None, UNKNOWN, "list")) if listed else value

    def mode_with(self, node: cst.Call) -> str:
        """The mode of a model that takes others as its parts: those keep theirs until it is told one."""
        kinds = [self.kind_of(arg.value) for arg in node.args]
        parts = [kind for kind in kinds if isinstance(kind, Model) and kind.place is not None]
        apart = [one for one in parts if one.place and self.env.modes.get(one.place, "train") != "train"]
        return "mixed" if any(self.script.trains(one.cls) for one in apart) else ""

    def written_dict(self, node: Expr) -> Expr:
        """An argument of a constructor; the dict that it is where a name outside of classes stands for one that is
        written out and never changed."""
        meant = self.env.definitions.get(node.value) if isinstance(node, cst.Name) and not self.cls else None
        if not isinstance(meant, cst.Dict) or not isinstance(node, cst.Name):
            return node
        scope = self.own_body
        methods = [call.func for call in usage.calls(scope) if isinstance(call.func, cst.Attribute)]
        called = any(one.attr.value in _CHANGING and nodes.dotted(one.value) == node.value for one in methods)
        taken = any(node.value in usage.loads(one) for one in every(scope, cst.Del))
        return node if called or taken or usage.changes(scope).count(node.value) != 1 else meant

    def as_hashed(self, facts: ClassFacts, name: str, written: Expr, value: Value, given: Expr) -> Expr:
        """An argument of a model, which jit hashes: neither a dict, nor a list or an array of an object's."""
        unknown = type(value.kind) is Kind or (isinstance(value.kind, Host) and value.kind.what == "data")
        listed = unknown and isinstance(written, cst.Attribute) and _takes_apart(facts, name)
        if listed or (value.kind == Plain("dict") and self.holds_lists(written)):
            return with_snippets(self, nodes.call("hashable", given), ["hashable"])
        return nodes.call("freeze", given) if value.kind == Plain("dict") and "freeze" not in self.unit.taken else given

    def holds_lists(self, node: Expr) -> bool:
        """Whether a dict has lists in it, or may have."""
        meant = self.written_dict(node)
        if isinstance(meant, cst.Name):
            name = meant.value
            bound = [value for target, value in usage.bindings(self.unit.source.module) if nodes.dotted(target) == name]
            meant = bound[0] if len(bound) == 1 else meant
        return any(True for _ in every(meant, cst.List)) or not isinstance(meant, cst.Dict)

    @staticmethod
    def says_nothing(facts: ClassFacts, arg: cst.Arg, name: str) -> bool:
        """Whether an argument goes into `*args` or `**kwargs` of a constructor that never reads them."""
        if arg.keyword is not None:
            return "**" in facts.ignores and name not in facts.fields
        return "*" in facts.ignores and not name and not arg.star

    def made_in_passing(self, made: cst.Call, cls: str) -> Expr:
        """`Attention(8, parent=None).bind({})` for a module without weights that a forward pass makes: Flax adopts
        those that `setup` makes alone."""
        own = any(self.script.classes[name].parameters for name in self.script.with_submodules(cls))
        if own or any(layer.weights for layer in self.script.layers_inside(cls)):
            raise Unsupported("MIG201", f"{spelled(cls)} is made in a forward pass, with new weights at each call")
        if self.script.trains(cls) or self.script.draws(cls):
            raise Unsupported("MIG201", f"{spelled(cls)} is made in a forward pass, in train mode at each call")
        alone = made.with_changes(args=nodes.extended(made.args, {"parent": nodes.name("None")}))
        return nodes.call(cst.Attribute(alone, cst.Name("bind")), cst.Dict([]))

    def handed_kind(self, written: Expr, kind: Kind) -> Kind:
        """What an argument of a module's constructor tells of a field. A field of this class that is handed on says no
        more than what this class was made with: nothing at first, where classes make each other or themselves."""
        facts = self.script.classes.get(self.cls)
        if kind == UNKNOWN and self.not_built_yet(written):
            return Never()
        own = facts is not None and self.context == "setup" and isinstance(written, cst.Name)
        if own and facts is not None and kind == UNKNOWN and nodes.code(written) in facts.fields:
            return facts.field_kinds.get(nodes.code(written), Never())
        return _frozen(kind)

    def note_arguments(self, node: cst.Call, made: ClassFacts) -> None:
        """What a submodule is given, in terms of the fields of this class."""
        facts = self.script.classes[self.cls]
        if not self.making or self.scope.rpartition(".")[2] != "__init__":
            return
        own = {name: nodes.expression(f"self.{name}") for name in facts.fields if name not in self.env.definitions}
        facts.arguments[self.making] = {
            name: nodes.substituted(arg.value, own)
            for arg, name in zip(node.args, argument_names(node.args, made.fields), strict=True)
            if name and set(usage.loads(arg.value)) <= set(own)
        }

    def field_value(self, value: Value) -> Expr:
        """An argument of a module's constructor: a field can be hashed."""
        self.refuse_torch(value)
        return _hashable(value)


def _takes_apart(facts: ClassFacts, name: str) -> bool:
    """Whether the constructor of a class goes through the elements of an argument."""
    init = facts.method("__init__")
    if init is None or not name:
        return False
    calls = [call for call in usage.calls(init) if any(nodes.dotted(arg.value) == name for arg in call.args)]
    paths = [nodes.dotted(call.func) or "" for call in calls]
    looped = [one.iter for one in every(init, (cst.For, cst.CompFor))]
    looped += [one.value for one in every(init, cst.Subscript)]
    return any(path in _GOING_THROUGH or path.startswith("np.") for path in paths) or name in map(nodes.dotted, looped)


def _frozen(kind: Kind) -> Kind:
    """The kind of a list once it is a tuple, and of the lists in it."""
    if type(kind) is not Items:
        return kind
    items = None if kind.items is None else tuple(map(_frozen, kind.items))
    return Items(items, _frozen(kind.element), "tuple" if kind.type == "list" else kind.type)


def _hashable(value: Value) -> Expr:
    return _as_tuples(layouts.first(value), value.kind)


def _as_tuples(node: Expr, kind: Kind) -> Expr:
    """Lists, and lists of lists, as tuples."""
    if isinstance(node, cst.List | cst.Tuple):
        parts = nodes.elements(node)
        kinds = kind.items if isinstance(kind, Items) and kind.items is not None else ()
        inner = kinds if len(kinds) == len(parts) else [_joined(kind)] * len(parts)
        plain = isinstance(node, cst.Tuple) and not any(isinstance(part, cst.List) for part in parts)
        made = [_as_tuples(part, of_part) for part, of_part in zip(parts, inner, strict=True)]
        return node if plain else nodes.tuple_of(made)
    if not isinstance(kind, Items) or kind.type != "list" or isinstance(node, cst.StarredElement):
        return node
    lists = isinstance(_joined(kind), Items) and _joined(kind) != _frozen(_joined(kind))
    return nodes.call("tuple", nodes.call("map", nodes.name("tuple"), node) if lists else node)


def _joined(kind: Kind) -> Kind:
    return kind.joined() if isinstance(kind, Items) else UNKNOWN
