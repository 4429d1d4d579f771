"""What stays torch: data sets, loaders, and the tensors that they are fed with; and where a batch enters JAX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.kept import kept
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import (
    UNKNOWN,
    Device,
    DType,
    Function,
    Host,
    HostClass,
    Instance,
    Items,
    Kind,
    Model,
    Number,
    Plain,
    Tensor,
    TorchName,
    is_batch,
)
from migrate.known.qualified import inside
from migrate.known.weight_kinds import Weight
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.expressions.typed_tensors import TENSOR_TYPES, tensor_type
from migrate.lowering.host import graphs
from migrate.lowering.host.batch_entries import only_listed, reads_keys
from migrate.lowering.host.generators import Generators
from migrate.lowering.host.transforms import of_transforms
from migrate.rules.catalogue import RULES
from migrate.rules.creation import dtype_kind
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import AnyNode, Expr, Statement


def for_torch(value: Value) -> Expr:
    """A value as torch code takes it: what is computed in JAX is copied to a tensor; its device is the CPU."""
    if isinstance(value.kind, Device):
        return nodes.expression('"cpu"')
    node = layouts.first(value)
    return nodes.call(_FROM_NUMPY, nodes.call("np.array", node)) if isinstance(value.kind, Tensor) else node


_ENTRIES = ("keys", "values", "items")  # of a dict of tensors


def _item(entry: Kind) -> Kind:
    return Items((Plain("str"), entry), type="tuple")


def _parts(node: Expr) -> list[Expr]:
    """What a list, a tuple or a dict is written of."""
    if not isinstance(node, cst.List | cst.Tuple | cst.Dict):
        return []
    held = [element.value for element in node.elements]
    return [part for value in held for part in (_parts(value) or [value])]


_FROM_NUMPY = kept(nodes.expression("torch.from_numpy"))
DEVICE = kept(nodes.expression('torch.device("cpu")'))  # of torch code that loads data


_SHOWING = "torchvision.utils"  # what is computed in JAX is shown as a copy
_IN_JIT = ("forward", "setup", "region")


class DataLoading(Generators):
    """What stays torch, and the border to JAX."""

    def data_call(self, name: str, node: cst.Call) -> Value:
        """Data loading stays torch, and so do the tensors that it is fed with."""
        args = []
        for arg in node.args:
            if isinstance(arg.value, cst.Lambda):
                args.append(arg.with_changes(value=self.stays_torch(arg.value)))
                continue
            if self.given_function(arg.value):
                args.append(arg)
                continue
            value = self.expr(arg.value)
            for part in _parts(arg.value):
                self.given_function(part)
                self.sink(self.kind_of(part))
            made_here = isinstance(value.kind, Tensor) and value.kind.origins == {id(arg.value)}
            if made_here or not name.startswith(_SHOWING):
                self.sink(value.kind)
            self.keep(arg.value)
            args.append(arg.with_changes(value=for_torch(value)))
        graphs.refuse_in_jit(name, [self.kind_of(arg.value) for arg in node.args], self.context in _IN_JIT)
        what = "loader" if name.endswith("DataLoader") else "data"
        if name.startswith(_SHOWING):
            what = "tensor"
        if name.startswith("torch.utils.tensorboard"):
            what = "writer"
        return Value(
            node.with_changes(args=args), of_transforms(self, name, node) or graphs.of_graphs(name, node) or Host(what)
        )

    def given_function(self, node: Expr) -> bool:
        """Whether an argument of data loading is a function of the user's, as a `collate_fn` is: it stays torch."""
        node = self.env.definitions.get(node.value, node) if isinstance(node, cst.Name) else node
        if isinstance(node, cst.Call) and (nodes.dotted(node.func) or "").rpartition(".")[2] == "partial" and node.args:
            node = node.args[0].value
        kind = self.kind_of(node)
        if isinstance(kind, Function):
            self.script.host_functions.add(kind.name)
        return isinstance(kind, Function) or kind == Host("function")

    def sink(self, kind: Kind) -> None:
        """Tensors that feed data loading stay torch, from the places that made them on; and so do classes of objects
        that it is given, as a transform."""
        for part in kinds_in(kind):
            if isinstance(part, Tensor):
                self.script.host_sites |= part.origins
            if isinstance(part, Instance | HostClass) and self.serves_data(part.cls):
                self.script.host_classes.add(part.cls)

    def serves_data(self, cls: str) -> bool:
        """Whether the objects of a class may work on the data of a set that they are given to: those that can be
        called, have methods that work on tensors, or hold some. Settings do not."""
        if self.script.keeps_state(cls):
            return False
        methods = self.script.methods(cls)
        methods.pop(f"{cls}.__init__", None)
        held = self.script.attributes.get(cls, {}).values()
        works = f"{cls}.__call__" in methods or any(map(self.works_on_tensors, methods.values()))
        return works or any(isinstance(kind, Tensor) for kind in held)

    def stays_torch(self, node: AnyNode) -> AnyNode:
        """A function or a class that data loading runs, as it is; with it stay those of the user's, and the tensors,
        that it names."""
        for name in usage.loads(node):
            kind = self.env.lookup(name) or self.defined_later(name)
            if isinstance(kind, Function) and self.works_on_tensors(self.script.functions[kind.name]):
                self.script.host_functions.add(kind.name)
            elif isinstance(kind, Device):
                self.script.host_devices.add(name)
            elif kind is not None:
                self.sink(kind)
        return kept(node)

    def defined_later(self, name: str) -> Kind | None:
        """The function or the class that a name will stand for, which nothing binds yet."""
        qualname = inside(self.scope, name)
        for statement in self.blocks[0].statements:
            if isinstance(statement, cst.ClassDef) and statement.name.value == name:
                return HostClass(qualname)
        return Function(qualname) if qualname in self.script.functions else None

    def works_on_tensors(self, facts: FunctionFacts) -> bool:
        """Whether a function of the user's would be another in JAX."""
        given = [part for kind in facts.params.values() for part in kinds_in(kind)]
        return self.uses_torch(facts.node) or any(isinstance(part, Tensor) for part in given)

    def test_of_entry(self, node: cst.Call) -> Value | None:
        """`torch.is_tensor(v)`, `isinstance(v, torch.Tensor)` of what a loader gives, which is torch's until JAX works
        on it: the test stays as it is. None of other tests."""
        value = self.asked(node.args[0].value) if node.args else None
        if value is None or not is_batch(value.kind) or self.region is not None:
            return None
        entry = node.args[0].with_changes(value=value.node)
        if nodes.dotted(node.func) != "isinstance":
            self.script.kept |= value.kind.origins
            return Value(node.with_changes(func=kept(node.func), args=[entry]), Number())
        asked = node.args[1].value
        types = nodes.elements(asked) if isinstance(asked, cst.Tuple) else [asked]
        if "torch.Tensor" not in map(self.torch_name, types):
            return None
        self.script.kept |= value.kind.origins
        return Value(node.with_changes(args=[entry, node.args[1].with_changes(value=kept(asked))]), Number())

    def keep(self, node: Expr) -> None:
        """Batches of a loader that torch code uses are not converted where they are bound."""
        for name in usage.loads(node):
            kind = self.kind_of_name(name)
            if isinstance(kind, Host) and kind.origins:
                self.script.kept |= kind.origins

    def host_method(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        """A method of what stays torch; `.to(device)` is where a batch enters JAX."""
        kind, method = base.kind, func.attr.value
        assert isinstance(kind, Host)
        if kind.what == "writer":
            return Value(node.with_changes(func=func.with_changes(value=base.node), args=self.told_args(node)), kind)
        if is_batch(kind) and method in ("to", "cuda"):
            if self.conditions:  # it is an array whether or not it is moved
                self.script.wanted |= kind.origins
            array = Value(self.taken_in(base.node), Tensor())
            return self.cast(node, array) if method == "to" else array
        if is_batch(kind) and method == "type" and self.places(node):
            return self.cast(node, Value(self.taken_in(base.node), Tensor()))
        if graphs.is_placed(kind, method):
            return base
        result: Kind = kind if kind.what == "generator" else graphs.method_of(kind, method) or Host("data")
        if is_batch(kind):
            numeric = method in ("item", "size", "dim", "numel", "tolist", "numpy")
            result = UNKNOWN if numeric else Host("tensor", kind.origins if method in RULES else frozenset())
            if method == "next":
                result = Host("batch", frozenset({id(node)}))
            if method == "get" and (len(node.args) < 2 or nodes.is_literal(node.args[1].value, None)):
                result = replace(result, optional=True) if isinstance(result, Host) else result
            if method in _ENTRIES and not node.args:
                entry = Host("tensor", frozenset({id(node)}))
                result = Items(None, {"keys": Plain("str"), "values": entry}.get(method) or _item(entry))
        if method in ("next", "__next__"):
            result = Host("batch", frozenset({id(node)}))
        if kind.what == "tensor" and kind.origins and method not in ("size", "item", "dim", "to"):
            self.script.kept |= kind.origins
        args = self.torch_args(node.args)
        return Value(node.with_changes(func=func.with_changes(value=base.node), args=args), result)

    def told_args(self, node: cst.Call) -> list[cst.Arg]:
        """What TensorBoard is told, which takes arrays of numpy's, and no graph of a model."""
        values = [self.expr(arg.value) for arg in node.args]
        if any(isinstance(value.kind, Model) for value in values):
            raise Unsupported("MIG301", f"{nodes.code(node.func)} of a model")
        made = []
        for arg, value in zip(node.args, values, strict=True):
            told = layouts.first(value)
            if isinstance(value.kind, Tensor | Weight):
                told = nodes.call("np.asarray", told)
            elif any(isinstance(part, Tensor | Weight) for part in self.kinds_told(arg.value, value)):
                told = nodes.call("jax.device_get", told)
            made.append(arg.with_changes(value=told))
        return made

    def kinds_told(self, node: Expr, value: Value) -> Iterable[Kind]:
        """The kinds of what is in a value; of a dict as it is written, since one of several kinds tells none."""
        if not isinstance(node, cst.Dict):
            return kinds_in(value.kind)
        return [self.expr(element.value).kind for element in node.elements]

    def places(self, node: cst.Call) -> bool:
        """Whether `x.type(T)` moves as well: T is a type of the device's tensors, or that where there is a device."""
        kinds = [self.expr(arg.value).kind for arg in node.args]
        return any(isinstance(kind, TorchName) and kind.name.startswith("torch.cuda.") for kind in kinds)

    def cast(self, node: cst.Call, base: Value) -> Value:
        """`x.to(...)`, `x.type(...)`: devices go, dtypes become astype."""
        node_out, kind = layouts.first(base), base.kind
        assert isinstance(kind, Tensor)
        casted = False
        for arg in node.args:
            value = self.expr(arg.value)
            keyword = arg.keyword.value if arg.keyword else ""
            if keyword == "memory_format":
                continue  # XLA chooses how an array lies in memory
            text = nodes.literal(arg.value)
            by_type = isinstance(node.func, cst.Attribute) and node.func.attr.value == "type"
            if by_type and isinstance(text, str):  # x.type("torch.FloatTensor")
                value = Value(arg.value, TorchName(text))
            if isinstance(value.kind, DType) or keyword == "dtype" or (by_type and type(value.kind) is Kind):
                node_out = nodes.expression("{x}.astype({dtype})", x=node_out, dtype=value.node)
                kind, casted = replace(kind, dtype=dtype_kind(value.node)), True
            elif isinstance(value.kind, Tensor):
                node_out = nodes.expression("{x}.astype({y}.dtype)", x=node_out, y=value.node)
                kind, casted = value.kind, True
            elif isinstance(value.kind, TorchName) and tensor_type(value.kind.name):
                dtype = nodes.expression(TENSOR_TYPES[tensor_type(value.kind.name)])
                node_out = nodes.expression("{x}.astype({dtype})", x=node_out, dtype=dtype)
                kind, casted = replace(kind, dtype=dtype_kind(dtype)), True
            elif isinstance(value.kind, TorchName):
                raise Unsupported("MIG302", f"Tensor.{nodes.code(node.func).rpartition('.')[2]}({value.kind.name})")
        return Value(node_out, kind) if casted else base

    def converted(self, targets: Sequence[cst.CSTNode]) -> list[Statement]:
        """Batches that a binding took from a loader, as jax arrays where JAX code uses them and torch code does not."""
        names = []
        converting = self.script.wanted - self.script.kept
        for target in targets:
            for name in usage.target_names(target):
                kind = self.env.kinds.get(name)
                if isinstance(kind, Host) and kind.what == "tensor" and kind.origins and kind.origins <= converting:
                    names.append(name)
        if not names or self.context in _IN_JIT:
            return []
        body = self.own_body
        wanted = [name for name in names if not (reads_keys([body], name) or only_listed(body, name))]
        wanted = [name for name in wanted if self.loaded_later(name)]
        if not wanted:
            return []
        arrays = nodes.bare_tuple(
            [self.as_array(Value(nodes.name(name), self.env.kinds[name])).node for name in wanted]
        )
        for name in wanted:
            self.env.kinds[name] = Tensor()
        return [nodes.statement(f"{', '.join(wanted)} = {{arrays}}", arrays=arrays)]
