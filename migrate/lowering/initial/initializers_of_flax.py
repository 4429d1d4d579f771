"""What fills a weight in torch, and the initialiser that it is in Flax."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.layers.layer import Weight
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.scope import Scope
from migrate.optimizers import INITIALIZERS
from migrate.rules.rule import Call, signature
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

IN_PLACE = {"normal_", "zero_", "fill_", "uniform_"}
FILLING = {"zero_": "zeros_", "fill_": "constant_"}  # methods of tensors -> their functions, of other names


def fills(scope: Arguments, node: cst.CSTNode) -> bool:
    """Whether code fills weights somewhere."""
    return any(fills_weight(scope, call) for call in usage.calls(node))


def fills_weight(scope: Scope, call: cst.Call) -> bool:
    """Whether a call is one of `nn.init`, or of a method that fills a tensor in place."""
    return filling(scope, call) is not None


def filling(scope: Scope, call: cst.Call) -> tuple[str, Expr] | None:
    """The function of `nn.init` that a call stands for, and what it fills: `w` of `nn.init.normal_(w)` and of
    `w.zero_()`; None of other calls."""
    name, func = scope.torch_name(call.func) or "", call.func
    if name.startswith("torch.nn.init.") and call.args:
        return name.rpartition(".")[2], call.args[0].value
    if isinstance(func, cst.Attribute) and func.attr.value in IN_PLACE:
        return FILLING.get(func.attr.value, func.attr.value), func.value
    return None


def scaling(call: cst.Call) -> tuple[str, Expr] | None:
    """The method that scales a weight by a number, and the weight: of `w.data.mul_(0.1)`; None of other calls."""
    func = call.func
    scales_it = isinstance(func, cst.Attribute) and func.attr.value in SCALING and len(call.args) == 1
    return (func.attr.value, func.value) if scales_it and isinstance(func, cst.Attribute) else None


def initializer_of(scope: Arguments, name: str, call: cst.Call, target: Expr) -> Expr:
    """What one function of `nn.init`, or a method like `weight.data.normal_()`, is in Flax."""
    entry = INITIALIZERS.get(name.removesuffix("_") + "_")
    if entry is None:
        raise Unsupported("MIG204", f"torch.nn.init.{name}")
    text, template = entry
    parameters = signature(text)
    function = bool(call.args) and target is call.args[0].value
    args = call.args[1:] if function else [arg.with_changes(keyword=_of_method(arg.keyword)) for arg in call.args]
    bound = scope.bind_call(f"torch.nn.init.{name}", parameters, [cst.Arg(nodes.expression("None")), *args])
    for refused in ("generator", "mean"):
        if refused == "mean" and name.removesuffix("_") == "normal":
            continue
        if any(parameter.name == refused for parameter in parameters) and f"{{{refused}}}" not in template:
            bound.only(refused, 0.0, 0, None)
    if name.startswith("kaiming"):
        return _kaiming(bound, template)
    if name.startswith("xavier") and bound.has("gain"):
        shape = "uniform" if "uniform" in name else "normal"
        return bound.make(f'nn.initializers.variance_scaling({{gain}} ** 2, "fan_avg", "{shape}")')
    if name == "constant_" and nodes.literal(bound.node("val")) in (0, 1):
        return nodes.expression(
            "nn.initializers.zeros" if nodes.literal(bound.node("val")) == 0 else "nn.initializers.ones"
        )
    if name.removesuffix("_") == "normal" and nodes.literal(bound.node("mean")) != 0:
        return bound.make("lambda key, shape, dtype=jnp.float32: {mean} + {std} * jax.random.normal(key, shape, dtype)")
    if name == "trunc_normal_" and _never_cut(bound):
        return bound.make(INITIALIZERS["normal_"][1])
    return bound.make(template)


def without_data(node: Expr) -> Expr:
    """`weight` of `weight.data`; other expressions as they are."""
    return node.value if isinstance(node, cst.Attribute) and node.attr.value == "data" else node


def scaled_so_far(method: str, number: Expr) -> Expr:
    """What `mul_` or `div_` makes of the initial values that a weight has so far; see `completed`."""
    if nodes.literal(number) == 0 and method == "mul_":
        return nodes.expression("nn.initializers.zeros")
    text = "{n} * {x}(*args)" if method == "mul_" else "{x}(*args) / {n}"
    return nodes.expression(f"lambda *args: {text}", n=nodes.parenthesized(number), x=nodes.name(_SO_FAR))


def set_so_far(index: Sequence[cst.SubscriptElement], method: str, value: Expr, transposed: bool) -> Expr:
    """The initial values that a weight has so far, with a part of it changed by a method of `.at`; see `completed`. The
    part is told in torch's order of axes; `transposed`: Flax has the other one of two."""
    number = nodes.literal(value) is not ... or isinstance(value, cst.UnaryOperation)
    swapped = transposed and number and len(index) < 3 and all(map(_is_plain_index, index))
    if swapped:
        rows, columns = (*index, cst.SubscriptElement(cst.Slice(None, None)))[:2]
        index = nodes.separated([columns, rows])
    given = "key, shape, *args" if "shape" in usage.loads([*index, value]) else "*args"
    values = nodes.expression(f"{_SO_FAR}({given})")
    values = nodes.transposed(values) if transposed and not swapped else values
    part = cst.Subscript(cst.Attribute(values, cst.Name("at")), list(index))
    made: Expr = nodes.call(cst.Attribute(part, cst.Name(method)), value)
    made = nodes.transposed(made) if transposed and not swapped else made
    return nodes.expression(f"lambda {given}: {{x}}", x=made)


class _Instead(cst.CSTTransformer):
    """Puts an expression in the place of the call of what a weight is so far."""

    def __init__(self, made: Expr) -> None:
        super().__init__()
        self.made = made

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        return self.made if nodes.dotted(original_node.func) == _SO_FAR else updated_node


def _is_plain_index(element: cst.SubscriptElement) -> bool:
    index = element.slice
    return isinstance(index, cst.Slice) or not isinstance(cst.ensure_type(index, cst.Index).value, cst.Tuple | cst.List)


def goes_on(made: Expr) -> bool:
    """Whether an initialiser is told in terms of what the weight has so far, which only its constructor knows."""
    return _SO_FAR in usage.loads(made)


def scales(made: Expr) -> bool:
    """Whether an initialiser changes what another one gives."""
    return isinstance(made, cst.Lambda) and (isinstance(made.params.star_arg, cst.Param) or sets_part(made))


def sets_part(made: Expr) -> bool:
    """Whether an initialiser sets a part of what another one gives."""
    return isinstance(made, cst.Lambda) and "at" in usage.attributes(made.body)


SCALING = ("mul_", "div_")
_SO_FAR = "__so_far__"  # stands for the initialiser that a weight has by then


def _may_join(asked: cst.Lambda, known: cst.Lambda) -> bool:
    """Whether what an initialiser does with the values of another one may stand in that one's body, which has the names
    that it goes by."""
    if known.params.deep_equals(asked.params):
        return True
    ours, theirs = ({one.name.value for one in made.params.params} for made in (asked, known))
    return sets_part(asked) and ours <= theirs


def completed(asked: Expr, otherwise: Expr | str) -> Expr:
    """An initialiser that is asked for only where a field says so, with what it is otherwise, or one that scales what
    it is otherwise."""
    if isinstance(asked, cst.Lambda) and _SO_FAR in usage.loads(asked):
        if not otherwise:
            raise Unsupported("MIG204", "initial weights are scaled, and what they are is not known")
        known = nodes.expression(otherwise) if isinstance(otherwise, str) else otherwise
        if isinstance(known, cst.Lambda) and _may_join(asked, known):
            return known.with_changes(body=nodes.visited(asked, _Instead(nodes.parenthesized(known.body))).body)
        return nodes.substituted(asked, {_SO_FAR: nodes.parenthesized(known)})
    if not isinstance(asked, cst.IfExp):
        return asked
    if isinstance(asked.orelse, cst.IfExp):
        return asked.with_changes(orelse=completed(asked.orelse, otherwise))
    if not nodes.is_literal(asked.orelse, None):
        return asked
    if not otherwise:
        raise Unsupported("MIG204", f"initial weights depend on `{nodes.code(asked.test)}`")
    otherwise = nodes.expression(otherwise) if isinstance(otherwise, str) else otherwise
    if isinstance(otherwise, cst.IfExp) and otherwise.test.deep_equals(asked.test):
        otherwise = otherwise.orelse
    return otherwise if asked.body.deep_equals(otherwise) else asked.with_changes(orelse=otherwise)


_BY_FANS = ("nn.initializers.xavier_uniform", "nn.initializers.variance_scaling")


def outputs_first(made: Expr) -> Expr:
    """An initialiser that goes by fans, for a weight that keeps torch's order of axes: outputs first."""
    name = (nodes.dotted(made.func) or "") if isinstance(made, cst.Call) else ""
    own: list[cst.Arg] = []
    if name in _BY_FANS:
        own = nodes.arguments([], {"in_axis": cst.Integer("1"), "out_axis": cst.Integer("0")})
    if name == "nn.initializers.orthogonal":
        own = nodes.arguments([], {"column_axis": cst.Integer("0")})
    return made.with_changes(args=[*made.args, *own]) if isinstance(made, cst.Call) else made


def in_order_of(weight: Weight, made: Expr) -> Expr:
    """An initialiser for a weight of a layer, which Flax has in an order of its own, or in torch's."""
    return made if weight.moves else outputs_first(made)


def of_matrix(made: Expr, rank: int) -> Expr:
    """An initialiser of a convolution that sees its weight as a matrix, outputs by all that goes into each."""
    name = (nodes.dotted(made.func) or "") if isinstance(made, cst.Call) else ""
    if name == "nn.initializers.orthogonal":
        raise Unsupported("MIG204", "orthogonal weights of a view")
    if not isinstance(made, cst.Call) or name not in _BY_FANS:
        return made
    inputs = nodes.tuple_of([cst.Integer(str(axis)) for axis in range(rank - 1)])
    return made.with_changes(
        args=[*made.args, *nodes.arguments([], {"in_axis": inputs, "out_axis": nodes.expression("-1")})]
    )


def _never_cut(bound: Call) -> bool:
    """Whether the bounds are so far out that a float32 never reaches them: it has no draws beyond 6 deviations."""
    deviation, low, high = (nodes.literal(bound.node(name)) for name in ("std", "a", "b"))
    known = all(isinstance(value, int | float) for value in (deviation, low, high))
    return known and min(-float(str(low)), float(str(high))) > 6 * float(str(deviation))


def _of_method(keyword: cst.Name | None) -> cst.Name | None:
    """The name that the functions of `nn.init` give an argument of a method of tensors."""
    names = {"to": "b", "value": "val"}
    return keyword.with_changes(value=names.get(keyword.value, keyword.value)) if keyword is not None else None


_GAINS = {"linear": 1.0, "sigmoid": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "tanh": 25 / 9, "selu": 9 / 16}


def _kaiming(bound: Call, template: str) -> Expr:
    """The variance is gain ** 2 / fan; the gain goes by the function that follows."""
    nonlinearity = str(bound.literal("nonlinearity"))
    template = template.replace("{mode}", str(bound.literal("mode")))
    if nonlinearity == "leaky_relu" and bound.has("a"):
        slope = nodes.literal(bound.node("a"))
        scale = bound.make("2 / (1 + {a} ** 2)") if slope is ... or not isinstance(slope, int | float) else None
        number = 2 / (1 + float(str(slope)) ** 2) if scale is None else 0.0
        scale = scale or nodes.expression(repr(number))
    elif nonlinearity in _GAINS:
        scale = nodes.expression(repr(_GAINS[nonlinearity]))
    elif nonlinearity in ("relu", "leaky_relu"):
        return bound.make(template)
    else:
        raise Unsupported("MIG204", f"torch.nn.init: nonlinearity={nonlinearity!r}")
    return bound.make(template.replace("2.0", "{scale}"), scale=scale)
