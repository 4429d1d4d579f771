"""No rule drops an argument in silence: each is used, refused, or means nothing in JAX."""

from __future__ import annotations

import re

import pytest

from migrate.diagnostics import Unsupported
from migrate.known.constructed import BoundWeight, LayerNode
from migrate.known.kinds import Distribution, Items, Module, Number, Tensor
from migrate.layers.moves import Permute
from migrate.layers.table import TABLE
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Call, Value, signature
from migrate.syntax import nodes
from migrate.targets import linen
from tests.conformance.examples import rules

# Where and how memory is kept, and who draws: nothing that a result shows in JAX.
MEANINGLESS = {
    "out", "layout", "device", "requires_grad", "pin_memory", "memory_format", "generator", "inplace", "_stacklevel",
    "copy", "non_blocking", "sparse", "sparse_grad", "validate_args",
}  # fmt: skip
# argument of a rule: why it may be left out
HARMLESS = {
    ("torch.topk", "sorted"): "JAX sorts always",
    ("torch.sort", "stable"): "JAX's sort is stable always",
    ("torch.argsort", "stable"): "JAX's sort is stable always",
    ("torch.searchsorted", "out_int32"): "integers are 32 bits wide in JAX",
    ("torch.bucketize", "out_int32"): "integers are 32 bits wide in JAX",
    ("torch.tril_indices", "dtype"): "integers are 32 bits wide in JAX",
    ("torch.triu_indices", "dtype"): "integers are 32 bits wide in JAX",
    ("torch.unique", "sorted"): "JAX sorts always",
    ("torch.sparse_coo_tensor", "check_invariants"): "asks for checks of the arguments",
    ("torch.sparse_coo_tensor", "is_coalesced"): "promises that no place comes twice; if one does, it adds up",
    ("torch.nn.utils.rnn.pack_padded_sequence", "enforce_sorted"): "whether torch sorts them, which it undoes",
    ("torch.nn.functional.embedding", "norm_type"): "of max_norm, which is refused",
    ("torch.nn.functional.multi_head_attention_forward", "training"): "of dropout, which is refused",
    ("torch.nn.functional.multi_head_attention_forward", "is_causal"): "a hint at what the mask is",
    **{
        ("torch.nn.functional.multi_head_attention_forward", f"{one}_proj_weight"): "of use_separate_proj_weight"
        for one in "qkv"
    },
    **{(f"torch_geometric.nn.global_{one}_pool", "size"): "of a batch" for one in ("add", "mean", "max")},
    ("torch.nn.functional.poisson_nll_loss", "eps"): "counts where log_input is False",
    ("torch.nn.functional.instance_norm", "momentum"): "of statistics, which are refused",
    ("torch.nn.functional.batch_norm", "momentum"): "of statistics that training would change, which is refused",
}
MARK = nodes.name("marked")
# Required arguments that are no float tensors.
REQUIRED = {
    "pad": Value(nodes.expression("(1, 2)"), Items((Number(), Number()), type="tuple")),
    "target": Value(nodes.name("target"), Tensor("int", 1)),
    "split_size_or_sections": Value(nodes.expression("2"), Number()),
    "output_size": Value(nodes.expression("1"), Number()),
    "data": Value(nodes.name("data"), Items(None, Number())),
    "dim": Value(nodes.expression("1"), Number()),
    "indices_or_sections": Value(nodes.expression("2"), Number()),
    "base_distribution": Value(nodes.name("base"), Distribution("Normal")),
    "p": Value(nodes.name("p"), Distribution("Normal")),
    "q": Value(nodes.name("q"), Distribution("Normal")),
    "reduce": Value(nodes.expression('"sum"'), Number()),
    "upper": Value(nodes.expression("True"), Number()),
    "nonlinearity": Value(nodes.expression("'leaky_relu'"), Number()),
    "bias_k": Value(nodes.expression("None"), Number()),
    "bias_v": Value(nodes.expression("None"), Number()),
    "add_zero_attn": Value(nodes.expression("False"), Number()),
    "dropout_p": Value(nodes.expression("0"), Number()),
}


# Rules that refuse everything without one of their optional arguments.
NEEDED = {
    "torch.nn.functional.softmax",
    "torch.nn.functional.log_softmax",
    "torch.nn.functional.one_hot",
    "torch.bincount",
    "torch.nn.functional.softmin",
}


def cases() -> list[tuple[str, str]]:
    return [
        (rule.names[0], parameter.name)
        for rule in rules()
        for parameter in rule.parameters
        if parameter.default is not None and parameter.name not in MEANINGLESS
    ]


def outcome(name: str, argument: str, value: Value) -> str:
    """The text that the rule makes with `value` for one argument, or "refused"."""
    rule = RULES[name]
    required = [p.name for p in rule.parameters if p.default is None and not p.star]
    bound = {p: REQUIRED.get(p, Value(nodes.name(p), Tensor("float", 2))) for p in required}
    for optional in ("num_classes", "dim", "minlength"):  # without which some rules refuse everything
        if optional in {p.name for p in rule.parameters} and optional != argument and name in NEEDED:
            bound[optional] = Value(nodes.expression("1"), Number())
    if name.startswith("torch.distributions.Distribution."):
        bound["self"] = Value(nodes.name("x"), Distribution("Normal"))
    bound[argument] = value
    defaults = {p.name: p.default for p in rule.parameters}
    rest = [Value(nodes.expression("2"), Number())] if any(p.star for p in rule.parameters) else []
    call = Call(name, bound, rest, defaults, lambda mode: nodes.name("key"), lambda snippet: None, False)
    try:
        made = rule.function(call)
    except (Unsupported, AssertionError):
        return "refused"
    return nodes.code(made.node if isinstance(made, Value) else made)


# Values that are no argument's default.
PROBES = [
    Value(MARK, Tensor("float", 1)),
    Value(nodes.expression("(3, 5)"), Items((Number(), Number()), type="tuple")),
    Value(nodes.expression("3"), Number()),
    Value(nodes.expression('"sum"'), Number()),
    Value(nodes.expression("True"), Number()),
    Value(nodes.expression("False"), Number()),
]


@pytest.mark.parametrize(("name", "argument"), cases())
def test_an_argument_is_used_or_refused(name: str, argument: str) -> None:
    if (name, argument) in HARMLESS:
        return
    default = next(p.default for p in RULES[name].parameters if p.name == argument)
    assert default is not None
    plain = outcome(name, argument, Value(default))
    texts = {outcome(name, argument, probe) for probe in PROBES}
    assert texts != {plain}, f"{name}: {argument} changes nothing in {plain}"


def test_what_is_harmless_is_still_an_argument() -> None:
    assert all(any(p.name == argument for p in RULES[name].parameters) for name, argument in HARMLESS)
    assert not re.search(r"\bmarked\b", outcome("torch.sort", "stable", Value(MARK)))


LAYER_ARGUMENTS = [
    (name, parameter.name)
    for name, layer in TABLE.items()
    for parameter in signature(layer.signature)
    if not parameter.star and parameter.name not in MEANINGLESS
]
LAYER_HARMLESS = {
    ("torch.nn.Embedding", "norm_type"): "of max_norm, which is refused",
    ("torch.nn.Embedding", "sparse"): "how the gradient is kept",
    ("torch.nn.EmbeddingBag", "norm_type"): "of max_norm, which is refused",
    ("torch.nn.EmbeddingBag", "sparse"): "how the gradient is kept",
    ("torch.nn.SyncBatchNorm", "process_group"): "the batch of a jitted step is the whole one",
    ("torch.nn.TransformerEncoder", "enable_nested_tensor"): "how torch keeps a padded batch",
    ("torch.nn.TransformerEncoder", "mask_check"): "of nested tensors",
    **{(f"torch_geometric.nn.{name}", "cached"): "weights of edges that are the same" for name in ("GCNConv", "APPNP")},
    **{("torch_geometric.nn.MLP", f"{one}_channels"): "counts beside in_channels" for one in ("hidden", "out")},
    **{
        (f"torch_geometric.nn.{name}", "fill_value"): "of features of edges, which are refused"
        for name in ("GATConv", "GATv2Conv")
    },
}
# Arguments that matter only beside others.
BESIDE = {
    f"torch.nn.InstanceNorm{n}d": {"track_running_stats": Value(nodes.expression("True"), Number())} for n in (1, 2, 3)
}
ONE_WEIGHT = LayerNode("torch.nn.Linear", (BoundWeight("weight", "params", "kernel", (Permute((1, 0)),), (4, 4)),))
GIVEN_LAYER = Value(nodes.name("layer"), Module((ONE_WEIGHT,)))


def constructed(name: str, argument: str, value: Value) -> str:
    """The constructor that is made with `value` for one argument, and its weights, or "refused"."""
    parameters = signature(TABLE[name].signature)
    bound = {p.name: Value(nodes.expression("4"), Number()) for p in parameters if p.default is None and not p.star}
    bound |= BESIDE.get(name, {})
    for part in TABLE[name].parts:
        bound[part.argument] = GIVEN_LAYER
    if TABLE[name].waits:  # what the first input tells
        bound[TABLE[name].waits] = Value(nodes.name("inputs"), Number())
    if TABLE[name].wraps:
        bound[TABLE[name].wraps] = GIVEN_LAYER
    defaults = {p.name: p.default for p in parameters}
    try:
        made = linen.construct(TABLE[name], Call(name, bound | {argument: value}, (), defaults), {})
    except Unsupported:
        return "refused"
    return f"{nodes.code(made.node)} {made.kind}"


@pytest.mark.parametrize(("name", "argument"), LAYER_ARGUMENTS)
def test_an_argument_of_a_layer_is_used_or_refused(name: str, argument: str) -> None:
    default = next(p.default for p in signature(TABLE[name].signature) if p.name == argument)
    probes = [*PROBES, Value(nodes.expression("8"), Number()), Value(default or nodes.expression("None"), Number())]
    probes += [GIVEN_LAYER] if argument == TABLE[name].wraps else []
    different = len({constructed(name, argument, probe) for probe in probes}) > 1
    assert different is ((name, argument) not in LAYER_HARMLESS)
