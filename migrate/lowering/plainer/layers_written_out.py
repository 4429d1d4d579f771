"""Classes that inherit from a layer of torch's and take it apart, `F.linear(x, self.mask * self.weight, self.bias)`, or
make more of it.

Flax's layers have no weights before they are called, and torch's names for them nowhere. Such a class is taken to be
written as a module of its own, with what the constructor of the layer does in it:

    class MaskedLinear(nn.Linear):            class MaskedLinear(nn.Module):
        def __init__(self, n, m, mask):           def __init__(self, n, m, mask):
            super().__init__(n, m)                    super().__init__()
                                                      self.weight = nn.Parameter(torch.empty(m, n))
                                                      ...

It is still a layer of that sort where the project asks: `isinstance(m, nn.Linear)` asks for either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.modules.handed_constructors import handed_on
from migrate.lowering.modules.inheritance import is_super_init
from migrate.lowering.modules.layer_subclasses import OWN_FORMS
from migrate.lowering.plainer.body_at_call import Instead
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.mentions_of_layers import asked_for_either
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


@dataclass(frozen=True)
class _Layer:
    """A layer in terms of parameters: what its constructor takes, what it makes, and what it computes.

    signature: parameter -> default ("" where it has none). kept: attributes -> what they are. made, drawn: statements
    that make the weight, and that fill it; biases: one that fills the bias. sizes: the size of the kernel along each
    axis. computed: the function of its input `x`."""

    signature: Mapping[str, str]
    kept: Mapping[str, str]
    made: str
    drawn: str
    sizes: str = ""
    biases: str = ""
    computed: str = ""

    @property
    def parameters(self) -> list[str]:
        """As they are written in a definition."""
        return [f"{name}={default}" if default else name for name, default in self.signature.items()]


_UNIFORM = "nn.init.uniform_(self.{weight}, -{bound}, {bound})"


def _linear() -> _Layer:
    bound = "in_features**-0.5"
    return _Layer(
        {"in_features": "", "out_features": "", "bias": "True"},
        {"in_features": "in_features", "out_features": "out_features"},
        "self.weight = nn.Parameter(torch.empty(out_features, in_features))",
        _UNIFORM.format(weight="weight", bound=bound),
        biases=_UNIFORM.format(weight="bias", bound=bound),
        computed="nn.functional.linear({x}, self.weight, self.bias)",
    )


def _convolution(axes: int) -> _Layer:
    sizes = ", ".join(["kernel_size"] * axes) + ("," if axes == 1 else "")
    factors = " * ".join(f"kernel_size[{axis}]" for axis in range(axes))
    bound = f"(in_channels // groups * {factors}) ** -0.5"
    settings = ("stride", "padding", "dilation")
    own = ", ".join(f"self.{name}" for name in (*settings, "groups"))
    return _Layer(
        {"in_channels": "", "out_channels": "", "kernel_size": ""}
        | {"stride": "1", "padding": "0", "dilation": "1", "groups": "1", "bias": "True"},
        {name: name for name in ("in_channels", "out_channels", "kernel_size", "groups")}
        | {name: f"({name},) * {axes} if isinstance({name}, int) else {name}" for name in settings},
        "self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *kernel_size))",
        _UNIFORM.format(weight="weight", bound=bound),
        sizes=f"({sizes}) if isinstance(kernel_size, int) else kernel_size",
        biases=_UNIFORM.format(weight="bias", bound=bound),
        computed=f"nn.functional.conv{axes}d({{x}}, self.weight, self.bias, {own})",
    )


_LAYERS = {
    "Linear": _linear(),
    "Conv1d": _convolution(1),
    "Conv2d": _convolution(2),
    "Conv3d": _convolution(3),
    "Embedding": _Layer(
        {"num_embeddings": "", "embedding_dim": ""},
        {"num_embeddings": "num_embeddings", "embedding_dim": "embedding_dim"},
        "self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim))",
        "nn.init.normal_(self.weight)",
        computed="nn.functional.embedding({x}, self.weight)",
    ),
}
_LOCALS = {"kernel_size": "sizes"}  # what a parameter is called once it is worked out
_SIZES = ("stride", "padding", "dilation")  # kept as they are given where torch's functions alone are told of them


def with_layers_written_out(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such classes written as modules of their own."""
    read = usage.attributes_read(one.source.text for one in inputs)
    asked = {name for layer in _LAYERS.values() for name in layer.kept if read is None or name in read}
    found = [_written_classes(one.source.module, asked) for one in inputs]
    written: dict[str, list[str]] = {}
    for cls in (cls for classes in found for cls in classes):
        written.setdefault(f"torch.nn.{cls.layer}", []).append(cls.node.name.value)
    if not written:
        return list(inputs)
    made: list[Input] = []
    for one, classes in zip(inputs, found, strict=True):
        tests = asked_for_either(one.source.module, written)
        if tests is None:
            return list(inputs)
        made.append(one.edited(Edits(instead={cls.node: [cls.rewritten] for cls in classes}, parts=tests)))
    return made


@dataclass(frozen=True)
class _Class:
    """A class that takes its layer apart: what layer that is, and the class as a module."""

    node: cst.ClassDef
    layer: str
    rewritten: cst.ClassDef


def _written_classes(module: cst.Module, asked: set[str]) -> list[_Class]:
    """Such classes of a file. `asked`: the attributes that the project reads."""
    imported, found = imported_names(module), list[_Class]()
    for node in (one for one in module.body if isinstance(one, cst.ClassDef)):
        base = node.bases[0].value if len(node.bases) == 1 and not node.keywords else None
        root, _, name = (full_name(base, imported) if isinstance(base, cst.Attribute) else "").rpartition(".")
        known = root == "torch.nn" and name in _LAYERS and imported.get("torch") == "torch"
        if not known or not isinstance(base, cst.Attribute) or not _takes_apart(node, name):
            continue
        made = _Writing(node, _LAYERS[name], nodes.code(base.value), asked).written()
        found += [] if made is None else [_Class(node, name, made)]
    return found


def _takes_apart(node: cst.ClassDef, layer: str) -> bool:
    """Whether a class reads or sets what its layer has, other than to compute what the layer does, or makes more of it
    than the layer does."""
    methods = [one for one in suites.suite_of(node.body.body) if isinstance(one, cst.FunctionDef)]
    init = next((one for one in methods if one.name.value == "__init__"), None)
    if init is not None and (len(methods) > 1 or handed_on(init) is None):
        return True
    function, *settings = OWN_FORMS.get(f"torch.nn.{layer}", ("",))
    own: set[int] = set()
    for call in usage.calls(node):
        given = [nodes.dotted(arg.value) for arg in call.args[1:]]
        if function and nodes.code(call.func).rpartition(".")[2] == function.rpartition(".")[2]:
            own |= {id(arg.value) for arg in call.args[1:] if given == [f"self.{one}" for one in settings]}
    names = {f"self.{name}" for name in ("weight", "bias", *_LAYERS[layer].kept)}
    return any(id(one) not in own for one in every(node, cst.Attribute) if nodes.dotted(one) in names)


@dataclass
class _Writing:
    """The class being written."""

    node: cst.ClassDef
    layer: _Layer
    root: str
    asked: set[str]
    methods: dict[str, cst.FunctionDef] = field(default_factory=dict)

    def written(self) -> cst.ClassDef | None:
        """The class as a module; None where its constructor cannot be followed."""
        body = suites.suite_of(self.node.body.body)
        self.methods = {one.name.value: one for one in body if isinstance(one, cst.FunctionDef)}
        init = self.constructor()
        if init is None or "super().reset_parameters" in nodes.code(self.node):
            return None
        made: list[Statement] = [init if one is self.methods.get("__init__") else one for one in body]
        if "__init__" not in self.methods:
            place = 1 if body and suites.is_docstring(body[0]) else 0
            made = [*made[:place], init, *(suites.spaced(one) for one in made[place:])]
        made = [nodes.visited(one, _Computed(self.computed)) for one in made]
        if "forward" not in self.methods:
            computed = self.computed(nodes.name("input"))
            forward = suites.function("forward", ["self", "input"], [nodes.statement("return {y}", y=computed)])
            made.append(suites.spaced(forward))
        base = self.node.bases[0].with_changes(value=nodes.expression(f"{self.root}.Module"))
        return self.node.with_changes(bases=[base], body=suites.block_of(self.node.body, made))

    def computed(self, given: Expr) -> Expr:
        """What the layer computes of an input."""
        return nodes.expression(self.layer.computed.replace("nn.", f"{self.root}.", 1), x=given)

    def constructor(self) -> cst.FunctionDef | None:
        init = self.methods.get("__init__")
        if init is None:
            given: dict[str, Expr] = {name: nodes.name(name) for name in self.layer.signature}
            body = [nodes.statement("super().__init__()"), *self.made(given, set(self.layer.signature))]
            return suites.function("__init__", ["self", *self.layer.parameters], body)
        init = self.with_signature(init)
        body = list(suites.suite_of(init.body.body))
        place = next((n for n, one in enumerate(body) if is_super_init(one)), None)
        small = suites.alone(body[place]) if place is not None else None
        call = small.value if isinstance(small, cst.Expr) else None
        if place is None or not isinstance(call, cst.Call) or any(arg.star for arg in call.args):
            return None
        names = argument_names(call.args, list(self.layer.signature))
        if any(name not in self.layer.signature for name in names):
            return None
        bound = {name: arg.value for name, arg in zip(names, call.args, strict=True)}
        known = {
            name: bound.get(name) or (nodes.expression(default) if default else None)
            for name, default in self.layer.signature.items()
        }
        given = {name: value for name, value in known.items() if value is not None}
        if len(given) < len(known):
            return None
        taken = {*usage.stores(init), *usage.loads(init), *(p.name.value for p in init.params.params)}
        first = cst.SimpleStatementLine([cst.Expr(call.with_changes(args=[]))], leading_lines=body[place].leading_lines)
        return init.with_changes(
            body=suites.block_of(init.body, [*body[:place], first, *self.made(given, taken), *body[place + 1 :]])
        )

    def with_signature(self, init: cst.FunctionDef) -> cst.FunctionDef:
        """A constructor that hands on whatever it is given, with the parameters of the layer."""
        star, more = init.params.star_arg, init.params.star_kwarg
        if not isinstance(star, cst.Param) or more is None or len(init.params.params) != 1:
            return init
        handed = f"*{star.name.value}, **{more.name.value}"
        calls = [call for call in usage.calls(init.body) if f"({handed})" in nodes.code(call)]
        if not calls or usage.loads(init.body).count(star.name.value) != 1:
            return init
        written = suites.function("__init__", ["self", *self.layer.parameters], [])
        params = init.params.with_changes(
            params=written.params.params, star_arg=cst.MaybeSentinel.DEFAULT, star_kwarg=None
        )
        if init.params.kwonly_params:
            params = params.with_changes(star_arg=cst.ParamStar())
        args = [cst.Arg(nodes.name(name)) for name in self.layer.signature]
        calling = next(call for call in calls if nodes.code(call).endswith(f"({handed})"))
        body = nodes.visited(init.body, Instead(calling, calling.with_changes(args=args)))
        return init.with_changes(params=params, body=body)

    def made(self, given: Mapping[str, Expr], taken: set[str]) -> list[Statement]:
        """The statements of the layer's constructor, with what it is given."""
        values, ahead = self.named(given, taken)
        return [*ahead, *self.settings(values), *self.weights(values)]

    def named(self, given: Mapping[str, Expr], taken: set[str]) -> tuple[dict[str, Expr], list[Statement]]:
        """What each parameter is, under a local name where that is worked out, and the statements that do so."""
        values, ahead = dict(given), list[Statement]()
        for name, value in given.items():
            local = usage.unused_name(_LOCALS.get(name, name), taken)
            if name == "kernel_size":
                sizes = nodes.substituted(nodes.expression(self.layer.sizes), {name: value})
                if nodes.literal(value) is not ...:
                    values[name] = _settled(sizes)
                    continue
                value = sizes
            elif isinstance(value, cst.Name | cst.Attribute) or nodes.literal(value) is not ... or name in _SIZES:
                continue
            taken.add(local)
            ahead.append(nodes.statement(f"{local} = {{value}}", value=value))
            values[name] = nodes.name(local)
        return values, ahead

    def settings(self, values: Mapping[str, Expr]) -> list[Statement]:
        """The attributes that something reads, but for the weights."""
        made: list[Statement] = []
        for name, text in self.layer.kept.items():
            if name in self.asked or self.tells(name):
                alone = name in _SIZES and not self.looks_at(name)
                kept = nodes.substituted(nodes.expression(name if alone else text), values)
                made.append(nodes.statement(f"self.{name} = {{kept}}", kept=_settled(kept)))
        return made

    def weights(self, values: Mapping[str, Expr]) -> list[Statement]:
        """The weights, and what fills them: a method of the class, if it has one."""
        own = "reset_parameters" in self.methods
        lines = [self.layer.made, *([] if own else [self.layer.drawn])]
        if "bias" in values:
            told = nodes.literal(values["bias"])
            count = "out_features" if "out_features" in values else "out_channels"
            made = [f"self.bias = nn.Parameter(torch.empty({count}))", *([] if own else [self.layer.biases])]
            block = "".join(f"\n    {line}" for line in made)
            either = f'if bias:{block}\nelse:\n    self.register_parameter("bias", None)'
            lines += [either] if told is ... else made if told else ["self.bias = None"]
        lines += ["self.reset_parameters()"] if own else []
        written = [one for line in lines for one in nodes.statements(line.replace("nn.", f"{self.root}."))]
        return [nodes.substituted(one, values) for one in written]

    def tells(self, name: str) -> bool:
        """Whether the layer's own computation, which is written out, reads an attribute."""
        return f"self.{name}" in self.layer.computed and (
            "forward" not in self.methods or "super()" in nodes.code(self.node)
        )

    def looks_at(self, name: str) -> bool:
        """Whether a class does more with a size than to give it to a function of torch's."""
        handed = [arg.value for call in usage.calls(self.node) for arg in call.args if "conv" in nodes.code(call.func)]
        read = [one for one in every(self.node, cst.Attribute) if nodes.dotted(one) == f"self.{name}"]
        return any(all(one is not each for each in handed) for one in read)


def _settled(node: Expr) -> Expr:
    """`(2, 2)` for `(2,) * 2 if isinstance(2, int) else 2`."""
    if not isinstance(node, cst.IfExp):
        return node
    value = nodes.literal(node.orelse)
    if value is ... or isinstance(value, str):
        return node.orelse if isinstance(value, str) else node
    return node.body if isinstance(value, int) else node.orelse


class _Computed(cst.CSTTransformer):
    """`super().forward(x)` as what the layer computes."""

    def __init__(self, computed: Callable[[Expr], Expr]) -> None:
        super().__init__()
        self.computed = computed

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = original_node.func
        above = isinstance(func, cst.Attribute) and func.attr.value in ("forward", "__call__")
        owner = func.value if isinstance(func, cst.Attribute) and above else None
        is_super = isinstance(owner, cst.Call) and nodes.dotted(owner.func) == "super"
        plain = len(updated_node.args) == 1 and not updated_node.args[0].star and updated_node.args[0].keyword is None
        return self.computed(updated_node.args[0].value) if is_super and plain else updated_node
