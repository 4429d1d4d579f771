"""Calls of Python's own functions."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    ITERATOR,
    UNKNOWN,
    Host,
    Items,
    Kind,
    Makers,
    Model,
    ModuleClass,
    Number,
    Plain,
    Tensor,
    TorchName,
)
from migrate.known.weight_kinds import Parameters, Selection
from migrate.lowering.expressions.arguments import placed
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.expressions.elements import kinds_in, loop_kind
from migrate.lowering.expressions.layers_apart import taken_apart
from migrate.lowering.expressions.open_files import FILE
from migrate.lowering.expressions.packed_elements import refuse_rows
from migrate.lowering.expressions.passed_on import each_of, gone_over
from migrate.lowering.expressions.torch_asked import torch_has
from migrate.lowering.expressions.typed_tensors import tensor_type
from migrate.lowering.host.distributed import Distributed
from migrate.lowering.host.host_draws import HostDraws
from migrate.lowering.modules.attributes_asked import AttributesAsked
from migrate.lowering.modules.attributes_by_name import AttributesByName
from migrate.lowering.modules.given_lists import type_test
from migrate.lowering.modules.inheritance import FRAMEWORK
from migrate.lowering.modules.methods_of_torch import held_elsewhere
from migrate.lowering.unit import stays
from migrate.lowering.updates.traced_effects import traced_print
from migrate.lowering.weights.weight_trees import of_leaves
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_NUMBER_BUILTINS = {"len", "int", "float", "round", "ord", "bool", "hash", "id", "isinstance"}
_OF_SCALARS = ("int", "float", "range", "round", "chr")
_OF_DATA = ("torch.tensor", "torch.as_tensor", "torch.from_numpy")
_TYPES = {"int": "int", "float": "float"}
_TAKING_APART = {"len", "enumerate", "zip", "reversed", "list", "tuple", "iter"}


class BuiltinCalls(AttributesByName, AttributesAsked, Distributed, HostDraws, Binding):
    """What `range`, `zip`, `next` and the like give, and `tqdm`, which gives what it is given."""

    def progress(self, node: cst.Call, callee: Value) -> Value:
        """`tqdm(x)` gives what x gives, and shows how far it is; `chain(x, y)` goes on with y."""
        values = [self.expr(arg.value) for arg in node.args]
        made = node.with_changes(args=placed(node.args, values))
        shown = self.shown_through(node)
        given = [value.kind for value, arg in zip(values, node.args, strict=True) if arg.keyword is None]
        chained = (nodes.dotted(node.func) or "").rpartition(".")[2] == "chain"
        alike = all(kind == given[0] for kind in given) or not chained
        kinds = [value.kind for value, arg in zip(values, node.args, strict=True) if arg.value is shown]
        if shown is not None and not kinds:
            kinds = [self.expr(shown).kind]
        return Value(made, kinds[0] if kinds and alike else UNKNOWN)

    def builtin_call(self, node: cst.Call, name: str) -> Value:
        """A call of a name that nothing binds: one of Python's own functions."""
        if name == "map" and len(node.args) > 1 and isinstance(node.args[0].value, cst.Lambda):
            return self.mapped(node, node.args[0].value)
        made = self.tensors_of(node) or self.those_of(node)
        if made is not None:
            return self.expr(made)
        gotten = self.got_by_name(node) if name == "getattr" else None
        if gotten is not None:
            return gotten
        node = type_test(self, node) if name == "isinstance" else node
        entry = self.test_of_entry(node) if name == "isinstance" else None
        if entry is not None:
            return entry
        tested = self.layer_test(node) if name == "isinstance" else None
        if tested is not None:
            return tested
        if torch_has(self, node):
            return Value(nodes.expression("True"), Number())
        asked = self.attribute_test(node) if name == "hasattr" else None
        if asked is not None:
            return asked
        if name == "locals" and self.context == "setup":
            raise Unsupported("MIG201", "locals() of a constructor, whose arguments are fields in Flax")
        groups = self.group_items(node.args[0].value) if name == "len" and len(node.args) == 1 else None
        if groups is not None:
            return Value(cst.Integer(str(len(groups))), Number())
        if name == "int" and len(node.args) == 1:
            known = self.launcher_variable(node.args[0].value)
            if known is not None:
                return Value(known, Number())
        printed = traced_print(self, node) if name == "print" and self.under_jit else None
        if printed is not None:
            return printed
        of_types = name in ("isinstance", "issubclass", "vars", "setattr", "delattr")
        values = [self.class_itself(arg.value) if of_types else self.expr(arg.value) for arg in node.args]
        if name in ("vars", "setattr", "delattr") and values and isinstance(values[0].kind, Model | ModuleClass):
            raise held_elsewhere(node)
        if name in _TAKING_APART:
            values = [taken_apart(self, value) for value in values]
        if name in ("isinstance", "issubclass"):
            values = [self.flax_class(value) for value in values]
        refuse_rows(node, *values)
        values = [self.usable(value) for value in values]
        for arg, value in zip(node.args, values, strict=True):
            self.use(arg.value, value)
            if name in ("isinstance", "issubclass") and any(isinstance(one, Makers) for one in kinds_in(value.kind)):
                raise Unsupported("MIG304", f"{nodes.code(arg.value)} in a test of types")
        values = [of_leaves(value, node) if name not in ("print", "type") else value for value in values]
        first = values[0].kind if values else UNKNOWN
        if name in _OF_SCALARS:
            values = [self.as_scalar(value) for value in values]
        if isinstance(first, Tensor) and first.rank != 0 and _TYPES.get(name) == first.dtype and not self.under_jit:
            return values[0]
        made = node.with_changes(args=placed(node.args, values))
        if name in ("float", "int", "bool") and isinstance(first, Tensor) and self.under_jit:
            raise Unsupported("MIG307", f"{name}() of a tensor whose values jit does not know")
        self.unit.reads_values |= name == "bool" and isinstance(first, Tensor)
        tensors = any(isinstance(kind, Tensor) for value in values for kind in kinds_in(value.kind))
        if name in ("max", "min", "sorted") and self.under_jit and tensors:
            return self.traced_extreme(node, name, values)
        if name in _NUMBER_BUILTINS:
            return Value(made, Number())
        if name == "range":
            for arg in node.args:
                self.note_type(arg.value, "int")
            return Value(made, Items(None, Number()))
        if name == "str":
            return Value(made, Plain("str"))
        if name == "enumerate":
            element = each_of(self, first, id(node.args[0]))
            return Value(made, Items(None, Items((Number(), element), type="tuple"), ITERATOR))
        if name == "zip":
            kinds = tuple(each_of(self, value.kind, id(arg)) for arg, value in zip(node.args, values, strict=True))
            return Value(made, Items(None, Items(kinds, type="tuple"), ITERATOR))
        if name in ("dict", "list", "tuple") and isinstance(first, Host) and first.what == "batch" and len(values) == 1:
            return Value(made, first)
        if name in ("list", "tuple", "sorted", "reversed"):
            if isinstance(first, Parameters):
                return Value(made, first)
            kept = ITERATOR if name == "reversed" else "list"
            return Value(made, Items(None, loop_kind(first, 0), kept) if isinstance(first, Items) else UNKNOWN)
        if name == "iter":
            return Value(made, gone_over(self, first))
        if name == "open":
            return Value(made, FILE)
        if name == "next" and isinstance(first, Parameters) and not first.named:
            raise Unsupported("MIG302", "the first of the parameters: their order is not torch's")
        if name == "next" and self.under_jit:
            return self.next_outside(node, first)
        if name == "next":
            known = isinstance(first, Host | Items)
            return Value(made, loop_kind(first, id(node)) if known else UNKNOWN)
        if name in ("sum", "max", "min", "abs"):
            kind = first.joined() if isinstance(first, Items) and len(node.args) == 1 else first
            return Value(made, kind if isinstance(kind, Tensor | Number) else UNKNOWN)
        return Value(made, UNKNOWN)

    def next_outside(self, node: cst.Call, iterated: Kind) -> Value:
        """`next(batches)` inside what jit traces, which would run it once: it is taken before the step."""
        kind = loop_kind(iterated, id(node)) if isinstance(iterated, Items) else UNKNOWN
        if not isinstance(kind, Tensor):
            raise stays(node, "next() would run once, when jit traces it")
        return self.from_outside("batch", node, kind)

    def traced_extreme(self, node: cst.Call, name: str, values: Sequence[Value]) -> Value:
        """Python's `max(a, b)`, which compares them: the second where it is greater, else the first."""
        if name == "sorted" or len(values) != 2 or any(arg.keyword or arg.star for arg in node.args):
            raise stays(node, f"{name}() compares the values")
        one, other = (nodes.parenthesized(layouts.first(self.as_array(value))) for value in values)
        sign = ">" if name == "max" else "<"
        made = nodes.expression(f"jnp.where({{b}} {sign} {{a}}, {{b}}, {{a}})", a=one, b=other)
        tensors = [value.kind for value in values if isinstance(value.kind, Tensor)]
        return Value(made, tensors[0])

    @staticmethod
    def flax_class(value: Value) -> Value:
        """`nn.Module` in a test of types is the class that modules of the output inherit from."""
        if isinstance(value.kind, TorchName) and value.kind.name == FRAMEWORK:
            return Value(nodes.expression("nn.Module"), Plain("type"))
        return value

    def tensors_of(self, node: cst.Call) -> Expr | None:
        """`(torch.LongTensor(x) for x in columns)` of `map(torch.LongTensor, columns)`, a list of `list(map(...))`;
        None of other calls. What makes a tensor of data goes by what it is given: no function of JAX's is it."""
        inner = node.args[0].value if node.args else None
        if nodes.dotted(node.func) == "list" and len(node.args) == 1 and isinstance(inner, cst.Call):
            made = self.tensors_of(inner) if nodes.dotted(inner.func) == "map" else None
            return cst.ListComp(made.elt, made.for_in) if isinstance(made, cst.GeneratorExp) else None
        if nodes.dotted(node.func) != "map" or len(node.args) != 2 or self.env.lookup("map") is not None:
            return None
        function, columns = (arg.value for arg in node.args)
        kind = self.expr(function).kind
        if not isinstance(kind, TorchName) or not (tensor_type(kind.name) or kind.name in _OF_DATA):
            return None
        made = nodes.expression("({function}(x) for x in {columns})", function=function, columns=columns)
        self.unit.at_place_of(made, node)
        return made

    def those_of(self, node: cst.Call) -> Expr | None:
        """`(p for p in model.parameters() if p.requires_grad)` of `filter(lambda p: p.requires_grad, ...)` with a test
        of weights; None of other calls."""
        test = node.args[0].value if nodes.dotted(node.func) == "filter" and len(node.args) == 2 else None
        if not isinstance(test, cst.Lambda) or len(test.params.params) != 1:
            return None
        if not isinstance(self.asked(node.args[1].value).kind, Parameters | Selection):
            return None
        text = "({each} for {each} in {those} if {test})"
        each = nodes.name(test.params.params[0].name.value)
        made = nodes.expression(text, each=each, those=node.args[1].value, test=nodes.parenthesized(test.body))
        self.unit.at_place_of(made, node)
        return made

    def mapped(self, node: cst.Call, function: cst.Lambda) -> Value:
        """`map(lambda t: ..., xs)`: the lambda takes what is in the lists."""
        values = [self.expr(arg.value) for arg in node.args[1:]]
        values = [
            one if isinstance(one.kind, Host) and one.kind.what == "batch" else self.as_array(one) for one in values
        ]
        names = [parameter.name.value for parameter in function.params.params]
        elements = [loop_kind(value.kind, id(node)) for value in values]
        bound: dict[str, Kind] = dict.fromkeys(names, UNKNOWN)
        body = self.inner(bound | dict(zip(names, elements, strict=False))).expr(function.body)
        lambda_ = function.with_changes(body=layouts.first(body))
        args = [node.args[0].with_changes(value=lambda_), *placed(node.args[1:], values)]
        items = values[0].kind.items if len(values) == 1 and isinstance(values[0].kind, Items) else None
        kinds = None if items is None else (body.kind,) * len(items)
        return Value(node.with_changes(args=args), Items(kinds, body.kind, ITERATOR))
