"""torch.nn.functional: normalisation, dropout, padding, products with weights."""

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.rules.norms import of_order
from migrate.rules.rule import Call, Rule, register, rule, signature
from migrate.rules.sizes import each_axis
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


@rule("torch.nn.functional.normalize", signature="input, p=2.0, dim=1, eps=1e-12, out=None", dtype="float")
def normalize(call: Call) -> Expr:
    """Divides by the norm, which is clamped from below by eps.

    >>> F.normalize(x, dim=1)  # x: f32[2, 3]
    normalize(x)
    >>> F.normalize(x, p=2, dim=-1, eps=1e-6)  # x: f32[2, 3, 4]
    normalize(x, axis=-1, eps=1e-6)
    >>> F.normalize(x, p=1, dim=-1)  # x: f32[2, 3]
    x / jnp.maximum(absolute(x).sum(axis=-1, keepdims=True), 1e-12)
    """
    if call.has("p") and call.literal("p") != 2:
        over = {"axis": call.node("dim"), "keepdims": nodes.name("True")}
        return call.make("{input} / jnp.maximum({norms}, {eps})", norms=of_order(call, call.node("input"), "p", over))
    call.snippet("normalize")
    keywords = {"axis": call.node("dim")} if call.has("dim") else {}
    keywords |= {"eps": call.node("eps")} if call.has("eps") else {}
    return nodes.call("normalize", call.node("input"), **keywords)


@rule("torch.nn.functional.one_hot", signature="tensor, num_classes=-1", dtype="int")
def one_hot(call: Call) -> Expr:
    """Integers in torch, floats in JAX; inside jit the number of classes must be given.

    >>> F.one_hot(x, 4)  # x: idx4[5]
    nn.one_hot(x, 4, dtype=jnp.int32)
    >>> F.one_hot(x)  # x: idx4[5]; on the host
    nn.one_hot(x, x.max() + 1, dtype=jnp.int32)
    """
    if not call.has("num_classes"):
        call.on_host(f"{call.api} without num_classes")
        return call.make("nn.one_hot({tensor}, {tensor}.max() + 1, dtype=jnp.int32)")
    return call.make("nn.one_hot({tensor}, {num_classes}, dtype=jnp.int32)")


@rule("torch.nn.functional.linear", signature="input, weight, bias=None", dtype="float")
def linear(call: Call) -> Expr:
    """The weight is (out, in).

    >>> F.linear(x, y)  # x: f32[2, 3]; y: f32[4, 3]
    x @ y.T
    >>> F.linear(x, y, z)  # x: f32[2, 3]; y: f32[4, 3]; z: f32[4]
    x @ y.T + z
    """
    weight = nodes.transposed(call.node("weight"))
    return call.make("{input} @ {w} + {bias}" if call.has("bias") else "{input} @ {w}", w=weight)


@rule(
    "torch.nn.functional.dropout", signature="input, p=0.5, training=True, inplace=False", elementwise=True, draws=True
)
def dropout(call: Call) -> Expr:
    """Drops in eval mode too unless `training` says otherwise; by the mode of its module it is a layer.

    >>> F.dropout(x, 0.2)  # x: f32[4, 5]
    apply_dropout(key, x, 0.2)
    >>> F.dropout(x)  # x: f32[4, 5]
    apply_dropout(key, x, 0.5)
    """
    if nodes.is_literal(call.node("training"), False):
        return call.node("input")
    call.snippet("apply_dropout")
    given = [call.node("training")] if call.has("training") else []
    return nodes.call("apply_dropout", call.key(*given), call.node("input"), call.node("p"), *given)


@rule("torch.nn.functional.pad", signature="input, pad, mode='constant', value=None")
def pad(call: Call) -> Expr:
    """Pairs from the last axis backwards.

    >>> F.pad(x, (1, 2))  # x: f32[2, 3]
    jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 2)])
    >>> F.pad(x, (1, 2, 0, 1), value=3.0)  # x: f32[4, 2, 3]
    jnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, 1), (1, 2)], constant_values=3.0)
    >>> F.pad(x, (1, 2), mode="reflect")  # x: f32[4, 2, 3]
    jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 2)], mode="reflect")
    >>> F.pad(x, (0, 0, 1, -1), value=2.0)  # x: f32[4, 2, 3]
    pad_or_cut(x, (0, 0, 1, -1), 2.0)
    """
    if call.literal("mode") == "constant" and _may_cut(call.node("pad")):
        value = [call.node("value")] if call.has("value") else []
        return nodes.call(call.snippet("pad_or_cut"), call.node("input"), call.node("pad"), *value)
    pairs = _pairs(call)
    rank = call.rank("input")
    if rank >= len(pairs.elements):
        zeros = [cst.Element(nodes.expression("(0, 0)"))] * (rank - len(pairs.elements))
        widths: Expr = cst.List([*zeros, *pairs.elements])
    else:
        widths = nodes.expression(
            f"[(0, 0)] * ({{x}}.ndim - {len(pairs.elements)}) + {{pairs}}", x=call.node("input"), pairs=pairs
        )
    modes = {"constant": "", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    mode = modes.get(str(call.literal("mode")))
    if mode is None:
        raise Unsupported("MIG302", f"{call.api}: there is no mode {call.literal('mode')!r}")
    more = {"mode": nodes.expression(f'"{mode}"')} if mode else call.given(value="constant_values")
    if mode:
        call.only("value", None)
    return nodes.call("jnp.pad", call.node("input"), widths, **more)


def _may_cut(widths: Expr) -> bool:
    """Whether some width is negative, or nothing is told of them, as of a name."""
    if not isinstance(widths, cst.Tuple | cst.List):
        return True
    sizes = [element.value for element in widths.elements]
    minus = any(isinstance(size, cst.UnaryOperation) and isinstance(size.operator, cst.Minus) for size in sizes)
    return minus or any(isinstance(element, cst.StarredElement) for element in widths.elements)


def _pairs(call: Call) -> cst.List:
    """The pairs of `pad`, which count from the last axis, in the order of the axes."""
    node = call.node("pad")
    if not isinstance(node, cst.Tuple | cst.List) or any(isinstance(e, cst.StarredElement) for e in node.elements):
        raise Unsupported("MIG302", f"{call.api}: pad={nodes.code(node)} must be written out here")
    sizes = [element.value for element in node.elements]
    if _may_cut(node):
        raise Unsupported("MIG302", f"{call.api}: a negative width cuts, which jnp.pad does not do")
    pairs = [nodes.tuple_of(sizes[i : i + 2]) for i in range(0, len(sizes), 2)]
    return cst.List([cst.Element(pair) for pair in reversed(pairs)])


def _convolution(dimensions: int) -> Rule:
    def function(call: Call) -> Expr:
        keywords = {
            "window_strides": each_axis(call, call.value("stride"), dimensions),
            "padding": _padding(call, dimensions),
        }
        if call.has("dilation"):
            keywords["rhs_dilation"] = each_axis(call, call.value("dilation"), dimensions)
        if call.has("groups"):
            keywords["feature_group_count"] = call.node("groups")
        alone = call.rank("input") == dimensions + 1
        batch = call.make("{input}[None]") if alone else call.node("input")
        made = nodes.call("jax.lax.conv_general_dilated", batch, call.node("weight"), **keywords)
        made = nodes.expression("{y}[0]", y=made) if alone else made
        if not call.has("bias"):
            return made
        return nodes.expression("{y} + {b}.reshape(-1" + ", 1" * dimensions + ")", y=made, b=call.node("bias"))

    x, w = {
        1: ("2, 4, 9", "6, 4, 3"),
        2: ("2, 4, 7, 6", "6, 2, 3, 3"),
        3: ("2, 2, 4, 5, 3", "6, 2, 2, 2, 2"),
    }[dimensions]
    plain = {
        1: "(1,), padding=[(0, 0)]",
        2: "(2, 2), padding=[(1, 1), (1, 1)], feature_group_count=2",
        3: "(1, 1, 1), padding=[(0, 0), (0, 0), (0, 0)], rhs_dilation=(1, 2, 1)",
    }[dimensions]
    more = {1: "", 2: ", stride=2, padding=1, groups=2", 3: ", dilation=(1, 2, 1)"}[dimensions]
    ones = ", 1" * dimensions
    doc = (
        "Channels stay first, as torch has them; the weight is (out, in, *window) in both.\n\n"
        f"    >>> F.conv{dimensions}d(x, y, z{more})  # x: f32[{x}]; y: f32[{w}]; z: f32[6]\n"
        f"    jax.lax.conv_general_dilated(x, y, window_strides={plain}) + z.reshape(-1{ones})\n"
    )
    parameters = signature("input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1")
    names = (f"torch.nn.functional.conv{dimensions}d", f"torch.conv{dimensions}d")
    return Rule(names, parameters, function, False, "float", doc, "functional")


def _padding(call: Call, count: int) -> Expr:
    if isinstance(nodes.literal(call.node("padding")), str):
        return nodes.expression(f'"{call.literal("padding")}"'.upper())
    sizes = each_axis(call, call.value("padding"), count)
    if not isinstance(sizes, cst.Tuple):
        return nodes.expression("[(size, size) for size in {sizes}]", sizes=sizes)
    pairs = [nodes.tuple_of([size.value, size.value]) for size in sizes.elements]
    return cst.List([cst.Element(pair) for pair in pairs])


register(_convolution(1))
register(_convolution(2))
register(_convolution(3))


@rule(
    "torch.nn.functional.embedding",
    signature="input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False",
    dtype="float",
)
def embedding(call: Call) -> Expr:
    """Rows of a table; the row at padding_idx gets no gradient.

    >>> F.embedding(x, y)  # x: idx5[2, 3]; y: f32[5, 4]
    y[x]
    >>> F.embedding(x, y, padding_idx=1)  # x: idx5[2, 3]; y: f32[5, 4]
    y.at[1].set(jax.lax.stop_gradient(y[1]))[x]
    """
    call.only("max_norm", None)
    call.only("scale_grad_by_freq", False)
    if call.has("padding_idx"):
        row = "jax.lax.stop_gradient({weight}[{padding_idx}])"
        return call.make(f"{{weight}}.at[{{padding_idx}}].set({row})[{{input}}]")
    return call.make("{weight}[{input}]")


@rule(
    "torch.nn.functional.layer_norm",
    signature="input, normalized_shape, weight=None, bias=None, eps=1e-05",
    dtype="float",
)
def layer_norm(call: Call) -> Expr:
    """Over as many trailing axes as `normalized_shape` has.

    >>> F.layer_norm(x, (4,))  # x: f32[2, 3, 4]
    layer_norm(x, (4,))
    >>> F.layer_norm(x, [3, 4], y, z, eps=1e-3)  # x: f32[2, 3, 4]; y: f32[3, 4]; z: f32[3, 4]
    layer_norm(x, [3, 4], y, z, eps=1e-3)
    """
    call.snippet("layer_norm")
    given = [call.node(name) for name in ("weight", "bias") if call.has(name)]
    if call.has("bias") and not call.has("weight"):
        given = [nodes.name("None"), *given]
    keywords = {"eps": call.node("eps")} if call.has("eps") else {}
    return nodes.call("layer_norm", call.node("input"), call.node("normalized_shape"), *given, **keywords)


def _to_one(dimensions: int) -> Rule:
    def function(call: Call) -> Expr:
        call.only("output_size", 1, (1,) * dimensions)
        return call.make(f"{{input}}.mean({tuple(range(-dimensions, 0))}, keepdims=True)")

    axes = tuple(range(-dimensions, 0))
    shape = ", ".join(map(str, range(2, 4 + dimensions)))
    name, parameters = f"adaptive_avg_pool{dimensions}d", signature("input, output_size")
    doc = f"Only to one element.\n\n    >>> F.{name}(x, 1)  # x: f32[{shape}]\n    x.mean({axes}, keepdims=True)\n"
    return Rule((f"torch.nn.functional.{name}",), parameters, function, False, "float", doc, "functional")


for _dimensions in (1, 2, 3):
    register(_to_one(_dimensions))


@rule(
    "torch.nn.functional.cosine_similarity",
    "torch.cosine_similarity",
    signature="x1, x2, dim=1, eps=1e-08",
    dtype="float",
)
def cosine_similarity(call: Call) -> Expr:
    """Each norm is clamped from below by eps.

    >>> F.cosine_similarity(x, y, dim=-1)  # x: f32[2, 3]; y: f32[2, 3]
    cosine_similarity(x, y, -1)
    """
    call.snippet("cosine_similarity")
    keywords = {"eps": call.node("eps")} if call.has("eps") else {}
    axis = [call.node("dim")] if call.has("dim") else []
    return nodes.call("cosine_similarity", call.node("x1"), call.node("x2"), *axis, **keywords)
