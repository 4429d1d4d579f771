"""Classes as values: `norm_layer=nn.BatchNorm2d`, `block=BasicBlock`, `partial(nn.LayerNorm, eps=1e-6)`.

A user's class is passed as it is. A torch layer becomes a small function that makes the Flax layer; it takes those of
torch's arguments that some call gives it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts, merge
from migrate.known.kinds import (
    UNKNOWN,
    Function,
    Kind,
    LayerSubclass,
    Makers,
    Model,
    Module,
    ModuleClass,
    Never,
    Number,
    Plain,
    TorchName,
    join,
)
from migrate.known.qualified import snake_case, spelled
from migrate.layers.layer import Layer
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.models.precision import CASTING
from migrate.lowering.modules.layers import Layers
from migrate.lowering.modules.names_of_flax import called_so
from migrate.lowering.modules.settings_given import settings
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Call, Parameter, Value
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement
from migrate.targets import linen
from migrate.targets.linen import flax_class_of


class MakerValues(Layers):
    """What makes a module, given as a value."""

    def layer_maker(self, name: str) -> Value:
        """A torch layer class as a value."""
        return self.maker_of(TABLE[name], name, TorchName(name))

    def class_itself(self, node: Expr) -> Value:
        """What is called, asked for as a type or inherited from, where a class that inherits from a layer is itself."""
        return self.expr(node) if self.layer_subclass_named(node) is None else Value(node, self.kind_of(node))

    def layer_subclass_named(self, node: Expr) -> ClassFacts | None:
        """The class that inherits from a layer under whose name an expression is; None for others."""
        kind = self.kind_of(node) if isinstance(node, cst.Name) else UNKNOWN
        facts = self.script.classes.get(kind.cls) if isinstance(kind, ModuleClass) else None
        plain = facts is not None and facts.extends and facts.hands_on is None and not TABLE[facts.extends].trains
        return facts if plain else None

    def subclass_maker(self, node: cst.Name, facts: ClassFacts) -> Value:
        """A class that inherits from a layer as a value: Flax's layer takes other arguments than torch's."""
        return self.maker_of(TABLE[facts.extends], facts.name, LayerSubclass(facts.name), node)

    def maker_of(self, layer: Layer, name: str, option: Kind, cls: Expr | None = None) -> Value:
        """A function that makes a layer, or what inherits from it as `cls`; `name` is under what its arguments are."""
        self.script.maker_files[name].add(self.unit.scope)
        wanted = self.script.made_with.get(name, set())
        parameters = [p for p in linen.layer_signature(layer) if p.name in wanted and not p.star]
        everything = {p.name: p.default for p in linen.layer_signature(layer)}
        kinds = self.script.made_kinds.get(name, {})
        bound = {p.name: Value(nodes.name(p.name), _given(p, kinds.get(p.name, UNKNOWN))) for p in parameters}
        for parameter in linen.layer_signature(layer):
            if parameter.default is None and parameter.name not in bound and not parameter.star:
                bound[parameter.name] = Value(nodes.name(parameter.name))
        call = Call(layer.torch, bound, (), everything, None, self.unit.use_snippet)
        initial = {weight.torch: weight.initializer for weight in layer.weights if weight.initializer in wanted}
        asked = {weight: nodes.name(keyword) for weight, keyword in initial.items()}
        made = linen.construct(layer, call, asked)
        if name in self.script.made_second:
            made = linen.with_channels_second(layer, made)
        if cls is not None:
            made = replace(made, node=self.as_subclass(layer, made.node, cls))
        code = nodes.code(made.node).replace("self.training", "training")
        node = with_snippets(self, cst.parse_expression(code), layer.snippets)
        written = [
            p.name if p.default is None else f"{p.name}={nodes.code(p.default)}"
            for p in linen.layer_signature(layer)
            if p.name in bound
        ]
        defaults = {keyword: linen.initializer_default(keyword, layer) for keyword in initial.values()}
        always = [keyword for keyword, default in defaults.items() if not default]
        written += [*(["*"] if always else []), *always]
        written += [f"{keyword}={default}" for keyword, default in defaults.items() if default]
        training = ["training=False"] if layer.trains or "training" in wanted else []
        ignored = [f"*{p.name}" for p in linen.layer_signature(layer) if p.star]
        training = [*ignored, *training, "**kwargs"] if ignored else training
        text = f"({', '.join([*written, *training])}): {nodes.code(node)}"

        def make(function: str) -> list[Statement]:
            definition = suites.function(function, [], [nodes.statement("return {x}", x=nodes.bare(node))])
            head = cst.parse_statement(f"def {function}({', '.join([*written, *training])}):\n    pass")
            assert isinstance(head, cst.FunctionDef)
            return [definition.with_changes(params=head.params)]

        function = self.unit.helper(f"make_{snake_case(spelled(name).rpartition('.')[2])}", make, text)
        return Value(nodes.name(function), Makers((option,)))

    def as_subclass(self, layer: Layer, made: Expr, cls: Expr) -> Expr:
        """The constructor of a layer as that of a class which inherits from it."""
        base = flax_class_of(layer)
        if base is None or not isinstance(made, cst.Call) or not made.func.deep_equals(base):
            raise Unsupported(
                "MIG203", f"{nodes.code(cls)}: as it is made here, {layer.torch} is another layer in Flax"
            )
        return made.with_changes(func=cls)

    def maker_by_name(self, node: cst.Call) -> Value | None:
        """`getattr(nn, name)`, `getattr(F, name)`, where a branch around, or what the modules of the class are made
        with, says what the name may be; None for other calls."""
        if nodes.dotted(node.func) != "getattr" or len(node.args) != 2:
            return None
        owner, name = node.args[0].value, node.args[1].value
        module = self.torch_name(owner)
        if module is None:
            return None
        literal = nodes.literal(name)
        choices = [literal] if isinstance(literal, str) else self.known_choices(name)
        known = [choice for choice in choices if f"{module}.{choice}" in TABLE or f"{module}.{choice}" in RULES]
        choices = known or choices  # any other is an error in torch as well
        if choices and all(f"{module}.{choice}" in RULES for choice in choices):
            named = {choice: cst.Attribute(owner, cst.Name(choice)) for choice in choices}
            if isinstance(literal, str):
                return self.expr(named[literal])
            return self.expr(nodes.expression("{named}[{name}]", named=nodes.dict_of(list(named.items())), name=name))
        if not choices or any(f"{module}.{choice}" not in TABLE for choice in choices):
            return None
        made = [(choice, self.layer_maker(f"{module}.{choice}")) for choice in choices]
        options = tuple(option for _, value in made for option in getattr(value.kind, "options", ()))
        if isinstance(literal, str):
            return made[0][1]
        chosen = nodes.dict_of([(choice, value.node) for choice, value in made])
        return Value(nodes.expression("{makers}[{name}]", makers=chosen, name=self.node(name)), Makers(options))

    def known_choices(self, name: Expr) -> list[str]:
        """The strings that an expression may be, by the branches around, `if kind in ["LSTM", "GRU"]`, or as what the
        modules of the class are made with."""
        for test in reversed(self.conditions):
            if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or not test.left.deep_equals(name):
                continue
            operator, given = test.comparisons[0].operator, test.comparisons[0].comparator
            if isinstance(operator, cst.Equal) and isinstance(nodes.literal(given), str):
                return [str(nodes.literal(given))]
            found = [nodes.literal(e) for e in nodes.elements(given)] if isinstance(given, cst.List | cst.Tuple) else []
            if isinstance(operator, cst.In) and all(isinstance(one, str) for one in found):
                return [str(one) for one in found]
        facts, field = self.script.classes.get(self.cls), nodes.dotted(name) or ""
        if facts is None or self.context != "setup" or field not in set(facts.fields) - facts.rebinds:
            return []
        given = settings(self.script, self.cls, field)
        texts = sorted(one for one in given if isinstance(one, str))
        return texts if len(texts) == len(given) else []

    def construct_made(self, node: cst.Call, callee: Value, kind: Makers) -> Value:
        """`norm_layer(width)`: one of the layers and classes that the value may be."""
        if all(isinstance(option, TorchName) for option in kind.options):
            node = self.without_defaults(node)
        trains = any(self.option_trains(option) for option in kind.options)
        result: Kind = Never()
        args: list[cst.Arg] = []
        own: dict[str, Expr] = {}
        whole = self.with_partial_arguments(node)
        for option in kind.options:
            if isinstance(option, ModuleClass):
                self.refuse_other_names(node, option)
                made = self.construct_user(node, callee, option)
                self.script.classes[option.cls].made_by_value = True
                self.script.classes[option.cls].own_trains |= trains
            elif isinstance(option, Function):
                made = self.user_call(node, callee, option)
                made = Value(made.node, self.as_if_made_here(made.kind))
                self.script.functions[option.name].takes_mode |= trains
            else:
                layer, name = self.layer_made(option)
                made = self.made_layer(option, whole)
                if trains:
                    self.script.made_with.setdefault(name, set()).add("training")
                own |= self.made_initial(layer, name)
            result = join(result, made.kind)
        if isinstance(result, Module) and "mixed" in (result.entry, result.exit):
            layers = [option.name for option in kind.options if isinstance(option, TorchName)]
            self.script.made_second.update(name for name in layers if TABLE[name].axis)
        for arg in node.args:
            value = self.expr(arg.value)
            args.append(arg.with_changes(value=self.field_value(value)))
        half = self.cls in self.script.half
        of_user = [isinstance(option, ModuleClass) for option in kind.options]
        if half and (any(self.is_cast(option) for option in kind.options) or len(set(of_user)) > 1):
            raise Unsupported("MIG203", f"{nodes.code(node.func)}: a layer that is given as a value, under autocast")
        own |= self.passed_by_value(kind)
        if own and len({isinstance(option, TorchName | LayerSubclass) for option in kind.options}) > 1:
            raise Unsupported("MIG204", f"initial weights of what {nodes.code(node.func)} makes")
        if trains and (self.cls or self.building):
            own["training"] = self.mode_expression(nodes.code(node.func))
        if half and all(of_user):
            own["dtype"] = nodes.expression("self.dtype")
        args = nodes.extended(args, own)
        if isinstance(result, Model) and result.place is None and self.context in HOST_CONTEXTS:
            return Value(node.with_changes(func=callee.node, args=args), result)
        if not isinstance(result, Module):
            raise Unsupported("MIG201", f"{nodes.code(node.func)} makes a model here, of a class that is not known")
        return Value(node.with_changes(func=callee.node, args=args), result)

    def as_if_made_here(self, kind: Kind) -> Kind:
        """What one of several functions makes: a model that it returns as it was made has no place of its own."""
        place = kind.place if isinstance(kind, Model) else None
        if place is None or place not in self.script.handed or self.script.frozen.any_of(place):
            return kind
        left = self.script.functions[place.scope].left_in.get(place, "train")
        return replace(kind, place=None) if left == "train" and place not in self.script.perhaps_loaded else kind

    def with_partial_arguments(self, node: cst.Call) -> cst.Call:
        """The call with what `layer = partial(nn.Linear, bias=False)` has given before."""
        made = self.env.definitions.get(node.func.value) if isinstance(node.func, cst.Name) else None
        if not isinstance(made, cst.Call) or not is_partial(made.func):
            return node
        given = {arg.keyword.value for arg in node.args if arg.keyword is not None}
        before = [arg for arg in made.args if arg.keyword is not None and arg.keyword.value not in given]
        return nodes.with_some(node, [*node.args, *before])

    def refuse_other_names(self, node: cst.Call, cls: ModuleClass) -> None:
        """Declines arguments that one of the classes takes by another name: one that inherits from a layer takes those
        of Flax's layer, whose first is another one."""
        if self.script.classes[cls.cls].extends:
            raise Unsupported("MIG201", f"{nodes.code(node)}: {spelled(cls.cls)} takes other arguments in Flax")
        if called_so(node, self.script.classes[cls.cls].other_names) is not node:
            raise Unsupported("MIG201", f"{nodes.code(node)}: {spelled(cls.cls)} takes that by another name in Flax")

    def is_making(self, kind: Makers) -> bool:
        """Whether a value that may be several things makes modules: functions alone may do anything."""
        functions = [option for option in kind.options if isinstance(option, Function)]
        results = [self.script.functions[function.name].result for function in functions]
        return len(functions) < len(kind.options) or any(isinstance(each, Model | Module | Never) for each in results)

    def is_cast(self, option: Kind) -> bool:
        """Whether an option makes a layer that autocast runs in the lower precision."""
        layer = self.layer_made(option)[0] if isinstance(option, TorchName | LayerSubclass) else None
        made = flax_class_of(layer) if layer is not None else None
        return made is not None and nodes.code(made) in CASTING

    def layer_made(self, option: Kind) -> tuple[Layer, str]:
        """The layer that an option makes or inherits from, and the name under which its arguments are kept."""
        if isinstance(option, LayerSubclass):
            return TABLE[self.script.classes[option.cls].extends], option.cls
        assert isinstance(option, TorchName)
        return TABLE[option.name], option.name

    def made_initial(self, layer: Layer, name: str) -> dict[str, Expr]:
        """The initialisers that are asked for a layer made by a value, by the keywords of its function."""
        keywords = {weight.torch: weight.initializer for weight in layer.weights}
        keys = {keyword for keyword in keywords.values() if keyword}
        own = {keywords[weight]: made for weight, made in self.asked_for(layer).items()}
        own = {key: made for key, made in own.items() if nodes.code(made) != linen.initializer_default(key, layer)}
        made_with = self.script.made_with.setdefault(name, set())
        made_with.update(own or [_AS_IT_IS])
        if _AS_IT_IS in made_with and not all(
            linen.initializer_default(keyword, layer) for keyword in made_with & keys
        ):
            raise Unsupported("MIG204", f"initial weights of a {spelled(name)} that is given as a value")
        return own

    def passed_by_value(self, kind: Makers) -> dict[str, Expr]:
        """The fields that choose between initialisers, given to whichever class a value is."""
        facts = self.script.classes.get(self.cls)
        classes = [option.cls for option in kind.options if isinstance(option, ModuleClass)]
        return {} if facts is None else {k: v for cls in classes for k, v in facts.passed.get((cls, ""), {}).items()}

    def option_trains(self, option: Kind) -> bool:
        """Whether what a maker makes behaves differently in train mode."""
        if isinstance(option, ModuleClass):
            return self.script.trains(option.cls)
        if isinstance(option, Function):
            return self.script.functions[option.name].takes_mode
        return isinstance(option, TorchName) and TABLE[option.name].trains

    def made_layer(self, option: Kind, node: cst.Call) -> Value:
        """One of the layers that a call may make; what it is called with is remembered."""
        layer, name = self.layer_made(option)
        names = [p.name for p in linen.layer_signature(layer)]
        given = argument_names(node.args, names)
        if any(not name for name in given):
            raise Unsupported("MIG302", f"{nodes.code(node)}: arguments that cannot be followed")
        self.script.made_with.setdefault(name, set()).update(given)
        for parameter, arg in zip(given, node.args, strict=True):
            merge(self.script.found_made_kinds[name], parameter, self.asked(arg.value).kind)
        if isinstance(option, LayerSubclass):
            return self.construct_extended(node, Value(node.func), self.script.classes[name])
        made = self.construct_layer(layer.torch, node)
        return linen.with_channels_second(layer, made) if name in self.script.made_second else made

    def partial_maker(self, node: cst.Call, made: Kind) -> Value | None:
        """`partial(nn.LayerNorm, eps=1e-6)`; None where it is a partial of something else."""
        options = made.options if isinstance(made, Makers) else (made,)
        if not all(isinstance(option, TorchName | ModuleClass | LayerSubclass) for option in options):
            return None
        other = next((one.name for one in options if isinstance(one, TorchName) and one.name not in TABLE), "")
        if other:
            raise Unsupported("MIG304", f"{other} is used as a value")
        node = nodes.with_some(node, [arg for arg in node.args if not _goes_without_saying(arg, options)])
        args = [self.expr(arg.value) for arg in node.args]
        if any(arg.keyword is None for arg in node.args[1:]):
            raise Unsupported("MIG302", f"{nodes.code(node)}: give the arguments by keyword")
        for option in options:
            if isinstance(option, ModuleClass):
                self.refuse_other_names(node, option)
            for arg, value in zip(node.args[1:], args[1:], strict=True):
                assert arg.keyword is not None
                if isinstance(option, ModuleClass):
                    merge(self.script.classes[option.cls].field_kinds, arg.keyword.value, value.kind)
                else:
                    _, name = self.layer_made(option)
                    self.script.made_with.setdefault(name, set()).add(arg.keyword.value)
                    merge(self.script.found_made_kinds[name], arg.keyword.value, value.kind)
        lowered = [arg.with_changes(value=self.field_value(v)) for arg, v in zip(node.args, args, strict=True)]
        return Value(node.with_changes(args=lowered), made)

    def class_attribute(self, base: Value, attribute: str) -> Kind:
        """`block.expansion`: what the classes that the value may be have in common."""
        options = base.kind.options if isinstance(base.kind, Makers) else (base.kind,)
        found: Kind = Never()
        for option in options:
            if isinstance(option, LayerSubclass):
                raise Unsupported("MIG201", f".{attribute} of {spelled(option.cls)}, which is given as a value")
            facts = self.script.classes.get(option.cls) if isinstance(option, ModuleClass) else None
            if facts is None:
                return UNKNOWN
            kind = facts.seen.get(attribute, facts.attributes.get(attribute, UNKNOWN))
            if kind is UNKNOWN and facts.is_borrowed(attribute):
                raise Unsupported("MIG201", f".{attribute} may be what {facts.borrows} adds, which is not known")
            found = join(found, kind)
        return found

    def annotated_maker(self, annotation: cst.Annotation | None) -> Kind:
        """The module classes that an annotation names, as in `block: type[BasicBlock]`; Never where it names none."""
        found: Kind = Never()
        text = nodes.code(annotation.annotation) if annotation is not None else ""
        if not re.match(r"(typing\.)?[Tt]ype\[", text):
            return found
        for name in dict.fromkeys(re.findall(r"\w+", text)):
            kind = self.env.lookup(name)
            if isinstance(kind, ModuleClass):
                found = join(found, kind)
        return found


def _given(parameter: Parameter, kind: Kind) -> Kind:
    """What an argument of some kind is, or else its default."""
    default = ... if parameter.default is None else nodes.literal(parameter.default)
    if default is None:
        return join(Plain("None"), kind)
    return join(Number(), kind) if isinstance(default, int | float) else kind


_AS_IT_IS = "as it is"  # among what a layer is made with: by some call with torch's initial weights


def _goes_without_saying(arg: cst.Arg, options: Sequence[Kind]) -> bool:
    """Whether an argument that must be written out has its default in each of some layers."""
    name = arg.keyword.value if arg.keyword is not None else ""
    layers = [TABLE[option.name] for option in options if isinstance(option, TorchName)]
    if len(layers) < len(options) or not all(name in layer.refuses for layer in layers):
        return False
    defaults = [p.default for layer in layers for p in linen.layer_signature(layer) if p.name == name]
    return all(default is not None and arg.value.deep_equals(default) for default in defaults)


def is_partial(node: Expr) -> bool:
    """Whether a function is `functools.partial`."""
    return (nodes.dotted(node) or "").rpartition(".")[2] == "partial"
