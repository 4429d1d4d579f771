"""Initial weights that a constructor asks for one by one: `nn.init.zeros_(self.fc.bias)`, `self.fc.bias.data.zero_()`.

What is asked for is noted under the path of the weight ("self.fc.bias", "self.net.2.weight"), and the constructor of
the layer takes it in the next round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode, LayerNode, ListNode
from migrate.known.facts import ClassFacts
from migrate.known.kinds import UNKNOWN, Module, Number, SelfModule, Tensor, Tied
from migrate.known.weight_kinds import LISTING
from migrate.layers.layer import asked_name
from migrate.layers.moves import Move, Permute
from migrate.layers.table import TABLE
from migrate.lowering.expressions.elements import children_of, named_child, only_option
from migrate.lowering.initial.host_initializers import DEEP
from migrate.lowering.initial.initializers_handed_down import HandedDown, Way
from migrate.lowering.initial.initializers_of_flax import (
    filling,
    fills,
    initializer_of,
    of_matrix,
    outputs_first,
    scaled_so_far,
    scaling,
    without_data,
)
from migrate.lowering.initial.initializing_functions import IN_ANY_CLASS
from migrate.lowering.initial.layers_in_turn import stand_for, turns_of_layers
from migrate.lowering.initial.names_of_rows import by_names_of_rows
from migrate.lowering.initial.names_unasked import without_names
from migrate.lowering.modules.constructors import set_before
from migrate.lowering.modules.layer_weights import in_order_of_flax
from migrate.lowering.modules.module_weights import is_still
from migrate.lowering.modules.tests_of_parts import TestsOfParts, parts_of
from migrate.lowering.plainer.new_parts import written_path
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.none_tests import tested_for_none
from migrate.syntax.walking import every


class InitialWeights(TestsOfParts, HandedDown):
    """Initialisers for single weights."""

    def initial_statement(self, node: cst.Call) -> list[Statement] | None:
        """A statement of a constructor that fills a weight; None where it does something else."""
        found = filling(self, node)
        if found is not None:
            name, target = found
            called = isinstance(node.func, cst.Attribute) and node.func.value is target
            return None if called and not isinstance(target, cst.Attribute) else self.ask(name, node, target)
        target = node.func.value if isinstance(node.func, cst.Attribute) else None
        if not isinstance(target, cst.Attribute) or not isinstance(node.func, cst.Attribute):
            return None
        if node.func.attr.value == "copy_":
            return self.copied(node, without_data(target))
        return self.scale(node, target.value) if target.attr.value == "data" else None

    def scale(self, call: cst.Call, weight: Expr) -> list[Statement] | None:
        """`self.head.weight.data.mul_(0.1)`: the initialiser that the weight has so far, times a number; None for other
        calls."""
        made = self.scaled_by(call)
        if made is None or (nodes.dotted(weight) or "").count(".") < 2:
            return None
        way, path = self.weight_path(weight)
        if self.is_computed(way, path) or self.conditions or way.through:
            raise Unsupported("MIG204", f"`{nodes.code(call)}`")
        self.note_asked(way, path, self.in_terms_of_fields(made, call, path), call, "")
        return []

    def scaled_by(self, call: cst.Call) -> Expr | None:
        """The initialiser that a weight has after a call which scales it by a number; None of other calls."""
        found = scaling(call)
        by = self.expr(self.with_lengths(call.args[0].value)) if found is not None else None
        return (
            None if found is None or by is None or not isinstance(by.kind, Number) else scaled_so_far(found[0], by.node)
        )

    def ask(self, name: str, call: cst.Call, target: Expr) -> list[Statement]:
        """Notes the initialiser of a weight under its path."""
        method = self.script.classes[self.cls].method(self.scope.rpartition(".")[2])
        loops = every(method, cst.For) if method is not None and isinstance(target, cst.Name) else ()
        if any(nodes.code(target) in usage.target_names(loop.target) for loop in loops):
            raise Unsupported("MIG204", f"`{nodes.code(call)}`: {nodes.code(target)} is another weight in each turn")
        named = self.meaning(target.value) if isinstance(target, cst.Name) and self.is_defined(target) else target
        matrix = self.seen_as_matrix(named)
        way, path = self.weight_path(without_data(matrix or named))
        if self.is_computed(way, path):
            self.unit.report(Unsupported("MIG513", nodes.code(call)), call)
            return []
        told = call.with_changes(args=[arg if arg.value is target else self.with_lengths(arg) for arg in call.args])
        made = self.in_terms_of_fields(initializer_of(self, name, told, target), call, path)
        if matrix is not None:
            made = of_matrix(made, self.rank_of(way, call))
        self.note_asked(way, path, made, call, nodes.dotted(without_data(matrix or named)) or "")
        return []

    def is_computed(self, way: Way, path: str) -> bool:
        """Whether a weight is computed of others whenever its layer is called: nothing that fills it lasts."""
        option = only_option(way.kind)
        layer = TABLE.get(option.torch) if isinstance(option, LayerNode) else None
        init = way.owner.method("__init__")
        targets = [nodes.dotted(each.target) for each in every(init, cst.AssignTarget)] if init is not None else []
        made, _, weight = path.rpartition(".")
        return layer is not None and weight in layer.renames and targets.count(made) == 1

    def is_defined(self, name: cst.Name) -> bool:
        """Whether a name of this method stands for an expression that is known."""
        return name.value in self.env.definitions and name.value not in self.walked

    def seen_as_matrix(self, node: Expr) -> Expr | None:
        """The weight `w` of `w.view(w.shape[0], -1)` and its like, a row for each output; None for anything else."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return None
        weight, method = node.func.value, node.func.attr.value
        given = [arg.value for arg in node.args]
        sizes = nodes.elements(given[0]) if len(given) == 1 and isinstance(given[0], cst.List | cst.Tuple) else given
        text, of = [nodes.code(size) for size in sizes], nodes.code(weight)
        rows = method in ("view", "reshape") and text in ([f"{of}.shape[0]", "-1"], [f"{of}.size(0)", "-1"])
        if not rows and (method, text) != ("flatten", ["1"]):
            return None
        return self.meaning(weight.value) if isinstance(weight, cst.Name) and self.is_defined(weight) else weight

    @staticmethod
    def rank_of(way: Way, call: cst.Call) -> int:
        """How many axes the weight of a convolution has."""
        option = only_option(way.kind)
        name = option.torch if isinstance(option, LayerNode) else ""
        if name.startswith("torch.nn.Conv") and name[-2:] in ("1d", "2d", "3d") and "Transpose" not in name:
            return int(name[-2]) + 2
        raise Unsupported("MIG204", f"`{nodes.code(call)}`: a view of what is no weight of a convolution")

    def in_terms_of_fields(self, made: Expr, call: cst.Call, path: str) -> Expr:
        """An initialiser without the variables of this method, which the constructor of the layer, at a path of the
        module, does not see."""
        facts = self.script.classes[self.cls]
        method = facts.method(self.scope.rpartition(".")[2])
        if method is None:
            return made
        own, first = set(usage.stores(method.body)), method.name.value == "__init__"
        before = _bound_before(method, path) if first else set()
        turned = {name for loop in every(method, cst.For) for name in usage.target_names(loop.target)}
        for _ in range(DEEP):
            read = (own - before - turned) & set(usage.loads(made))
            known = {name: self.env.definitions.get(name) for name in read}
            values = {name: self.node(self.with_lengths(value)) for name, value in known.items() if value is not None}
            if not values:
                break
            made = nodes.substituted(made, {name: nodes.parenthesized(value) for name, value in values.items()})
            self.restated |= set() if first else values.keys()
        paths = [one.split(".") for one in own_paths(made)]
        weights = {*facts.parameters, path.split(".")[1]}
        asked = {one[1] for one in paths if one[1] in weights or one[2:3] == ["variables"]}
        hidden = own - before if first else {parameter.name.value for parameter in method.params.params[1:]} | own
        left = [*(f"self.{name}" for name in sorted(asked)), *sorted(hidden & set(usage.loads(made)))]
        if left:
            raise Unsupported("MIG204", f"`{nodes.code(call)}` depends on the variable {left[0]}")
        return made

    def with_lengths(self, node: nodes.AnyNode) -> nodes.AnyNode:
        """A piece of code with the lengths of weights, `self.weight.size(1)`, as the constructor writes them."""
        facts = self.script.classes[self.cls]
        return nodes.visited(node, _Lengths(facts.torch_lengths, set(facts.fields) - facts.rebinds))

    def note_asked(self, way: Way, path: str, made: Expr, node: cst.CSTNode, written: str) -> None:
        """The same, through fields where the class of the weight makes others too, or does not know the names.
        `written`: what the statement calls the weight."""
        if self.is_of_tied(way, path):
            path = self.asked_of_tied(way, path, made, node)

        def is_it(other: Expr) -> bool:
            with suppress(Unsupported):
                found, its = self.weight_path(other)
                return (found.owner.name, its) == (way.owner.name, path)
            return False

        made_under = way.owner.askable_if.get(path, [])
        tests = [test for test in self.conditions if not any(test is one for one in made_under)]
        tests = [one for test in tests for one in parts_of(test) if not self.asks_for_part(one, written, is_it)]
        switch = self.field_behind(tests) or self.setting_behind(tests) or self.settled_field(tests)
        switch = switch or self.given_behind(tests)
        if tests and (not switch or way.through):
            raise Unsupported("MIG204", f"`{nodes.code(node)}` depends on `{nodes.code(tests[-1])}`")
        several = any(self.script.times_made(inner) > 1 for inner in self.crossed(way))
        if way.through and (several or set(usage.loads(made)) - IN_ANY_CLASS):
            self.hand_down(way, path, made, node)
        else:
            self.note_found(way.owner, path, made, node, switch)

    @staticmethod
    def is_of_tied(way: Way, path: str) -> bool:
        """Whether a path is that of the weight of a layer that has another's."""
        return path.removeprefix("self.") in way.owner.ties and isinstance(way.owner.seen.get(path.split(".")[1]), Tied)

    def asked_of_tied(self, way: Way, path: str, made: Expr, node: cst.CSTNode) -> str:
        """The path of the weight that a tied one is, which starts as is asked for the one or the other: where they
        differ, what was asked last counts, and that is known in the constructor itself."""
        facts, key = way.owner, path.removeprefix("self.")
        source = f"self.{facts.ties[key]}"
        known = facts.found_asked.get(source, facts.asked.get(source))
        now = outputs_first(made) if facts.askable.get(source) else made
        alike = known is not None and nodes.code(known) == nodes.code(now)
        if not alike and (key in facts.told_ties or way.through or not self.scope.endswith(".__init__")):
            raise Unsupported("MIG204", f"`{nodes.code(node)}`: {key} may be {facts.ties[key]}, which starts otherwise")
        return path if key in facts.told_ties else source

    @staticmethod
    def crossed(way: Way) -> list[str]:
        """The classes of the modules that a way leads through, down to that which makes the layer."""
        return [*(facts.name for facts, _ in way.through[1:]), way.owner.name] if way.through else []

    def copied(self, node: cst.Call, target: Expr) -> list[Statement]:
        """`self.x.data.copy_(value)`: a constant is bound again, a parameter starts from the value."""
        return self.starts_from(target, node.args[0].value, node)

    def weight_data(self, target: Expr, value: Expr) -> list[Statement]:
        """`self.x.data = value`."""
        return self.starts_from(target, value, target)

    def starts_from(self, target: Expr, value: Expr, node: cst.CSTNode) -> list[Statement]:
        """A constant is bound again, a parameter starts from the value."""
        path = nodes.dotted(target) or ""
        facts = self.script.classes[self.cls]
        name = path.removeprefix("self.")
        if name in facts.buffers and not self.conditions:
            return [nodes.statement(f"self.{name} = {{v}}", v=self.array(value).node)]
        made = self.starting_value(facts, name, value) if name in facts.parameters else None
        way = Way(facts, "self", UNKNOWN)
        if "." in name or not path:
            way, path = self.weight_path(target)
            moves = moves_of(way, path)
            plain = way.owner is facts and path in facts.askable and all(isinstance(one, Permute) for one in moves)
            made = self.starting_value(facts, name, value, moves) if plain else None
        if made is None:
            raise Unsupported("MIG204", f"`{nodes.code(node)}`")
        self.note_asked(way, path, made, node, nodes.dotted(without_data(target)) or "")
        return []

    def starts_as_parameter(self, target: cst.Attribute, value: Expr) -> list[Statement] | None:
        """`self.emb.weight = nn.Parameter(table, requires_grad=False)`; None for other values."""
        if not isinstance(value, cst.Call) or self.torch_name(value.func) != "torch.nn.Parameter" or not value.args:
            return None
        made = self.starts_from(target, value.args[0].value, value)
        if is_still(self, value):
            self.leave_still(target)
        return made

    def leave_still(self, target: cst.Attribute) -> list[Statement]:
        """`self.emb.weight.requires_grad = False`, where the weight is the only one of its layer, which has no gradient
        for its input either."""
        way, path = self.weight_path(target)
        option = only_option(way.kind)
        if way.through or self.conditions or not isinstance(option, LayerNode) or option.torch != _WITHOUT_GRADIENT:
            raise Unsupported("MIG204", f"{nodes.code(target)} is frozen by the constructor: freeze it in the script")
        way.owner.found_stilled.add(path)
        return []

    def starting_value(self, facts: ClassFacts, name: str, value: Expr, moves: Sequence[Move] = ()) -> Expr | None:
        """The initialiser of a parameter that starts as an array, in terms of what the constructor has made before it;
        None where it is made of anything else. `moves`: what Flax does to the order of torch's axes."""
        meant = {name: self.meaning(name) for name in usage.loads(value) if name in self.env.definitions}
        whole = nodes.substituted(value, meant)
        if _OF_INITIALIZERS & set(usage.loads(whole)):
            return None
        lowered = self.array(nodes.visited(whole, _OwnShape(name)))
        made = layouts.first(lowered)
        init, method = facts.method("__init__"), facts.method(self.scope.rpartition(".")[2])
        before = set_before(suites.suite_of(init.body.body), name.partition(".")[0]) if init is not None else set()
        local = set(usage.stores(method.body)) if method is not None and method is not init else set()
        if set(usage.loads(made)) & local or not {p.split(".")[1] for p in own_paths(made)} <= {*before, *facts.fields}:
            return None
        self.restated |= meant.keys()
        cast = "" if isinstance(lowered.kind, Tensor) and lowered.kind.dtype == "float" else ".astype(dtype)"
        whole = nodes.call("jnp.broadcast_to", made, _torch_shape(moves))
        text = f"lambda key, shape, dtype=jnp.float32: {{v}}{cast}"
        return nodes.expression(text, v=in_order_of_flax(whole, moves))

    def weight_path(self, node: Expr) -> tuple[Way, str]:
        """Where the layer of a weight is made, and the path of the weight in the class that makes it."""
        facts = self.script.classes[self.cls]
        if not isinstance(node, cst.Attribute):
            raise Unsupported("MIG204", f"{nodes.code(node)} is not known to be a weight")
        if isinstance(self.expr(node.value).kind, SelfModule):
            return Way(facts, "self", UNKNOWN), f"self.{node.attr.value}"
        way = self.module_path(node.value)
        if not isinstance(way.kind, Module):
            raise Unsupported("MIG204", f"{nodes.code(node)} is not known to be a weight")
        return way, f"{way.path}.{_asked_alone(way.kind, node.attr.value)}"

    def module_path(self, node: Expr) -> Way:
        """Where a module is made."""
        facts = self.script.classes[self.cls]
        path = written_path(node)
        if path in facts.replacing:
            return self.inside_class(Way(facts, path, facts.replacing[path]))
        if isinstance(node, cst.Name) and node.value in self.walked:
            whole = nodes.expression(self.walked[node.value])
            way = self.module_path(whole)
            return self.inside_class(Way(way.owner, way.path, self.kind_of_name(node.value), way.through))
        if isinstance(node, cst.Attribute):
            if isinstance(self.expr(node.value).kind, SelfModule):
                kind = self.expr(node).kind
                own = kind.layer if isinstance(kind, Tied) else kind
                maker = self.script.classes[self.script.maker_of(self.cls, node.attr.value)]
                return self.inside_class(Way(maker, f"self.{node.attr.value}", own))
            return self.part_of_module(self.module_path(node.value), node)
        if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            way = self.module_path(node.value)
            key = nodes.literal(node.slice[0].slice.value)
            option = only_option(way.kind)
            if isinstance(option, ListNode) and not option.dynamic and isinstance(key, int | str):
                number = key % len(children_of(option)) if isinstance(key, int) else key
                child = named_child(Module((option,)), number)
                return self.inside_class(Way(way.owner, f"{way.path}.{number}", child, way.through))
        raise Unsupported("MIG204", f"the weights of {nodes.code(node)} are changed after it was made")

    def part_of_module(self, way: Way, node: cst.Attribute) -> Way:
        """An attribute of a module: of the user's, a key of a list, or a part of a layer, such as `out_proj`."""
        name, option = node.attr.value, only_option(way.kind)
        found = way.owner.seen.get(name, way.owner.attributes.get(name))
        if way.path == "self" and found is not None:
            return self.inside_class(Way(way.owner, f"self.{name}", found, way.through))
        if isinstance(option, ListNode) and name in option.keys:
            child = named_child(Module((option,)), name)
            return self.inside_class(Way(way.owner, f"{way.path}.{name}", child, way.through))
        if isinstance(option, LayerNode) and any(weight.torch.startswith(f"{name}.") for weight in option.weights):
            return Way(way.owner, f"{way.path}.{name}", way.kind, way.through)
        raise Unsupported("MIG204", f"the weights of {nodes.code(node)} are changed after it was made")

    def inside_class(self, way: Way) -> Way:
        """A module of the user's: its weights are made by its own class."""
        option = only_option(way.kind)
        if not isinstance(option, ClassNode):
            return way
        return Way(self.script.classes[option.cls], "self", way.kind, (*way.through, (way.owner, way.path)))

    def modules_loop(self, node: cst.For) -> list[Statement] | None:
        """`for m in self.modules(): if isinstance(m, nn.Linear): ...`: a function given to apply, written in place."""
        written, node = node, by_names_of_rows(node) or without_names(node)
        called = nodes.dotted(node.iter.func) if isinstance(node.iter, cst.Call) else None
        owner, _, method = (called or "").rpartition(".")
        if self.context == "setup" and owner == "self" and method in LISTING:
            return self.parameters_loop(node)
        if self.context == "setup" and owner.startswith("self.") and method in LISTING and fills(self, node.body):
            return self.parameters_loop(node, of=owner.removeprefix("self."))
        if isinstance(node.iter, cst.Tuple | cst.List) and fills(self, node.body):
            made = self.weights_in_turn(node, nodes.elements(node.iter))
            if made is not None or self.context == "setup":
                return made
        turns = turns_of_layers(self, node)
        if turns is not None:
            return self.suite(stand_for(self, written, turns))
        if self.context in HOST_CONTEXTS:
            return self.initialising_modules(node)
        if self.context != "setup" or not isinstance(node.target, cst.Name):
            return None
        path = nodes.dotted(node.iter) or ""
        if path.startswith("self.") and isinstance(self.expr(node.iter).kind, Module):
            self.walked[node.target.value] = path
        if called != "self.modules":
            return None
        body = cst.IndentedBlock(suites.suite_of(node.body.body))
        function = cst.FunctionDef(cst.Name("initialize"), cst.Parameters([cst.Param(node.target)]), body)
        self.initialize_tree(self.script.classes[self.cls], function, outer_first=True, switch=self.deciding_field())
        return []

    def weights_in_turn(self, node: cst.For, weights: Sequence[Expr]) -> list[Statement] | None:
        """`for w in (self.a.weight, self.b.weight): nn.init.zeros_(w)`, a turn for each; None where they are no single
        weights."""
        plain = isinstance(node.target, cst.Name) and all(isinstance(one, cst.Attribute) for one in weights)
        body = suites.suite_of(node.body.body)
        if not plain or not isinstance(node.target, cst.Name) or node.orelse is not None:
            return None
        if any(map(suites.leaves_loop, body)):
            return None
        turns = [nodes.substituted(one, {node.target.value: weight}) for weight in weights for one in body]
        return self.suite(stand_for(self, node, turns))

    def deciding_field(self) -> str:
        """The field of this class that the conditions around come down to; "" where there are none."""
        name = self.field_behind(self.conditions) or self.settled_field(self.conditions)
        if self.conditions and not name:
            raise Unsupported("MIG204", f"initial weights depend on `{nodes.code(self.conditions[-1])}`")
        return name

    def field_behind(self, tests: Sequence[Expr]) -> str:
        """The field of this class that conditions come down to; "" where they do not."""
        name = self._path_behind(tests)
        return name if name in self.script.classes[self.cls].fields else ""

    def setting_behind(self, tests: Sequence[Expr]) -> str:
        """The same, or the path of what a field holds: "config.tie_word_embeddings"."""
        path, facts = self._path_behind(tests), self.script.classes[self.cls]
        return path if path.partition(".")[0] in set(facts.fields) - facts.rebinds else ""

    def given_behind(self, tests: Sequence[Expr]) -> str:
        """The same of whether a field is there: "table is not None"."""
        found = tested_for_none(tests[0]) if len(tests) == 1 else None
        field = self.field_behind([found[0]]) if found is not None and not found[1] else ""
        return f"{field} is not None" if field and field not in self.script.classes[self.cls].rebinds else ""

    def _path_behind(self, tests: Sequence[Expr]) -> str:
        test = self.in_own_terms(tests[0]) if len(tests) == 1 else None
        return (nodes.dotted(test) or "").removeprefix("self.") if test is not None else ""


def _asked_alone(kind: Module, weight: str) -> str:
    """The name by which initial values of a weight are asked for: that of all layers and directions of a recurrent
    network where there is one of each."""
    option = only_option(kind)
    known = [one.torch for one in option.weights] if isinstance(option, LayerNode) else []
    return asked_name(weight) if [one for one in known if asked_name(one) == asked_name(weight)] == [weight] else weight


def moves_of(way: Way, path: str) -> Sequence[Move]:
    """How Flax moves the axes of a weight, at its path where its layer is made."""
    option, name = only_option(way.kind), path.rpartition(".")[2]
    layer = TABLE.get(option.torch) if isinstance(option, LayerNode) else None
    weights = layer.weights if layer is not None else ()
    return next((one.moves for one in weights if name in (one.torch, one.asked)), ())


def _torch_shape(moves: Sequence[Move]) -> Expr:
    """The shape of a weight in torch, in terms of that in Flax."""
    axes = next((one.axes for one in moves if isinstance(one, Permute)), ())
    if axes in ((), (1, 0)):
        return nodes.expression("shape[::-1]" if axes else "shape")
    return nodes.tuple_of([nodes.expression(f"shape[{axes.index(axis)}]") for axis in range(len(axes))])


_WITHOUT_GRADIENT = "torch.nn.Embedding"
_OF_INITIALIZERS = {"key", "shape", "dtype"}  # their arguments


class _OwnShape(cst.CSTTransformer):
    """`shape` for the shape of a parameter, as its initialiser has it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.path = f"self.{name}.shape"

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return cst.Name("shape") if nodes.dotted(original_node) == self.path else updated_node


class _Lengths(cst.CSTTransformer):
    """Puts the lengths of weights as the constructor writes them: of `self.fc.weight.size(1)`, and of what is a length,
    `self.fc.in_features`. `written`: those of each; `fields`: the names that mean the same throughout it."""

    def __init__(self, written: Mapping[str, tuple[str, ...]], fields: set[str]) -> None:
        super().__init__()
        self.written, self.fields = written, fields

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        shape, index = original_node.value, original_node.slice[0].slice
        shape = shape.func if isinstance(shape, cst.Call) and not shape.args else shape
        if not isinstance(shape, cst.Attribute) or shape.attr.value not in ("shape", "size"):
            return updated_node
        if len(original_node.slice) > 1 or not isinstance(index, cst.Index):
            return updated_node
        return self.length(shape.value, nodes.literal(index.value)) or updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func, args = original_node.func, original_node.args
        if not isinstance(func, cst.Attribute) or func.attr.value != "size" or len(args) != 1:
            return updated_node
        return self.length(func.value, nodes.literal(args[0].value)) or updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        axis, weight = _SETTINGS.get(original_node.attr.value), cst.Attribute(original_node.value, cst.Name("weight"))
        return self.length(weight, axis) or updated_node

    def length(self, weight: Expr, axis: object) -> Expr | None:
        """The length of an axis of a weight; None where it is not known."""
        lengths = self.written.get(nodes.dotted(without_data(weight)) or "", ())
        if not isinstance(axis, int) or not -len(lengths) <= axis < len(lengths) or lengths[axis] == "?":
            return None
        length = cst.parse_expression(lengths[axis])
        return None if set(usage.loads(length)) - self.fields else length


_SETTINGS = {"in_features": 1, "out_features": 0, "embedding_dim": 1, "num_embeddings": 0}  # -> torch's axis


def _bound_before(init: cst.FunctionDef, path: str) -> set[str]:
    """The variables that a constructor has bound, once and for all, where it sets the attribute of a path."""
    body, root = suites.suite_of(init.body.body), path.split(".")[1]
    place = next((n for n, statement in enumerate(body) if root in usage.attributes_set(statement)), 0)
    return set(usage.stores(body[:place])) - set(usage.stores(body[place:]))


def own_paths(node: Expr) -> list[str]:
    """The attributes of `self` that an expression reads, as "self.fc"."""
    return [path for path in usage.paths(node) if path.startswith("self.")]
