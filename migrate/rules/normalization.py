"""torch.nn.functional: normalisation with weights passed in."""

from migrate.diagnostics import Unsupported
from migrate.rules.rule import Call, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


def _affine(call: Call) -> dict[str, Expr]:
    return call.given("weight", "bias", "eps")


@rule(
    "torch.nn.functional.batch_norm", "torch.batch_norm",
    signature="input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05",
    dtype="float",
)  # fmt: skip
def batch_norm(call: Call) -> Expr:
    """By the statistics that are given, or by those of the batch where there are none: training with given ones would
    change them in place, and is refused.

    >>> F.batch_norm(x, y, z)  # x: f32[4, 3, 2]; y: const[3]; z: const[3]
    batch_norm(x, y, z)
    >>> F.batch_norm(x, None, None, y, z, training=True)  # x: f32[4, 3, 2]; y: f32[3]; z: f32[3]
    batch_norm(x, weight=y, bias=z)
    """
    call.snippet("batch_norm")
    given = [nodes.literal(call.node(name)) is not None for name in ("running_mean", "running_var")]
    if not any(given):
        call.only("training", True)
        if not call.has("training"):
            raise Unsupported("MIG302", f"{call.api} without statistics, and not training")
        return nodes.call("batch_norm", call.node("input"), **_affine(call))
    call.only("training", False)
    positional = [call.node(name) for name in ("input", "running_mean", "running_var")]
    return nodes.call("batch_norm", *positional, **_affine(call))


@rule(
    "torch.nn.functional.group_norm", "torch.group_norm",
    signature="input, num_groups, weight=None, bias=None, eps=1e-05", dtype="float",
)  # fmt: skip
def group_norm(call: Call) -> Expr:
    """Channels are on axis 1.

    >>> F.group_norm(x, 2)  # x: f32[3, 4, 5]
    group_norm(x, 2)
    >>> F.group_norm(x, 2, y, z, eps=1e-3)  # x: f32[3, 4, 5, 2]; y: f32[4]; z: f32[4]
    group_norm(x, 2, weight=y, bias=z, eps=1e-3)
    """
    call.snippet("group_norm")
    return nodes.call("group_norm", call.node("input"), call.node("num_groups"), **_affine(call))


@rule(
    "torch.nn.functional.instance_norm",
    signature="input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, "
    "momentum=0.1, eps=1e-05",
    dtype="float",
)
def instance_norm(call: Call) -> Expr:
    """Each channel of each image is a group; running statistics are refused.

    >>> F.instance_norm(x)  # x: f32[3, 4, 5]
    group_norm(x, x.shape[1])
    """
    for name, allowed in (("running_mean", None), ("running_var", None), ("use_input_stats", True)):
        call.only(name, allowed)
    call.snippet("group_norm")
    return nodes.call("group_norm", call.node("input"), call.make("{input}.shape[1]"), **_affine(call))


@rule(
    "torch.nn.functional.rms_norm", "torch.rms_norm", signature="input, normalized_shape, weight=None, eps=None",
    dtype="float",
)  # fmt: skip
def rms_norm(call: Call) -> Expr:
    """Over as many trailing axes as `normalized_shape` has; eps is that of the type by default.

    >>> F.rms_norm(x, (4,))  # x: f32[2, 3, 4]
    rms_norm(x, (4,))
    >>> F.rms_norm(x, (3, 4), y, eps=1e-5)  # x: f32[2, 3, 4]; y: f32[3, 4]
    rms_norm(x, (3, 4), y, eps=1e-5)
    """
    call.snippet("rms_norm")
    positional = [call.node("weight")] if call.has("weight") else []
    return nodes.call("rms_norm", call.node("input"), call.node("normalized_shape"), *positional, **call.given("eps"))


@rule(
    "torch.nn.functional.local_response_norm",
    signature="input, size, alpha=0.0001, beta=0.75, k=1.0", dtype="float",
)  # fmt: skip
def local_response_norm(call: Call) -> Expr:
    """Over neighbouring channels; alpha counts for the mean of the window.

    >>> F.local_response_norm(x, 3)  # x: f32[2, 5, 4]
    local_response_norm(x, 3)
    >>> F.local_response_norm(x, 2, alpha=0.5, beta=0.5, k=2.0)  # x: f32[2, 5, 4]
    local_response_norm(x, 2, alpha=0.5, beta=0.5, k=2.0)
    """
    call.snippet("local_response_norm")
    more = call.given("alpha", "beta", "k")
    return nodes.call("local_response_norm", call.node("input"), call.node("size"), **more)
