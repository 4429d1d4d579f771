"""Other trees that published families are loaded from: big_vision's ViT, MaxText's scanned decoders.

These need the configuration, since heads are axes of their own and the layers of MaxText are stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod, sqrt
from typing import Any, TypeAlias

from migrate.layers.moves import Add, Permute, Reshape, Shape, Slice
from migrate.manifest import Leaf
from weight_port.errors import fail

Config: TypeAlias = Mapping[str, Any]  # a config.json


def layout_leaves(layout: str, family: str, prefix: str, config: Config) -> tuple[Leaf, ...]:
    """The leaves of a family in another tree; prefix: what stands before the torch names. Raises PortError WPT008."""
    if layout not in LAYOUTS:
        fail("WPT008", f"no layout {layout!r} is known; known are: {', '.join(LAYOUTS)}")
    if family not in LAYOUTS[layout]:
        fail("WPT008", f"{layout} has no layout for {family!r}; it has: {', '.join(LAYOUTS[layout])}")
    try:
        return tuple(LAYOUTS[layout][family](prefix, config))
    except KeyError as missing:
        fail("WPT008", f"the configuration does not say {missing}", "Give the model's config.json beside the weights.")


# --- big_vision -------------------------------------------------------------------------------------------------------


def _big_vision_vit(prefix: str, config: Config) -> Iterator[Leaf]:
    """`pool_type="tok"`. Its position embedding is added before the class token joins: what torch adds there is added
    to the token. big_vision's GELU is the tanh form and its epsilon 1e-6, whatever the configuration says."""
    heads, width = config["num_attention_heads"], config["hidden_size"]
    patches = (config["image_size"] // config["patch_size"]) ** 2
    size, embedded = width // heads, f"{prefix}embeddings"
    positions = f"{embedded}.position_embeddings"
    whole = (1, patches + 1, width)
    yield Leaf("params/cls", f"{embedded}.cls_token", put=(Add(),))
    yield Leaf("params/cls", positions, torch_shape=whole, take=(Slice(1, 0, 1),), put=(Add(),))
    yield Leaf("params/pos_embedding", positions, torch_shape=whole, take=(Slice(1, 1, patches + 1),))
    patch = f"{embedded}.patch_embeddings.projection"
    yield Leaf("params/embedding/kernel", f"{patch}.weight", (Permute((2, 3, 1, 0)),))
    yield Leaf("params/embedding/bias", f"{patch}.bias")
    block, torch = "params/Transformer/encoderblock_{0}", f"{prefix}encoder.layer.{{0}}"
    for flax, name in (("LayerNorm_0", "layernorm_before"), ("LayerNorm_1", "layernorm_after")):
        yield from _norm(f"{block}/{flax}", f"{torch}.{name}")
    attention = f"{block}/MultiHeadDotProductAttention_0"
    for name in ("query", "key", "value"):
        source = f"{torch}.attention.attention.{name}"
        yield _heads_out(f"{attention}/{name}/kernel", f"{source}.weight", (heads, size), width)
        yield Leaf(f"{attention}/{name}/bias", f"{source}.bias", (Reshape((heads, size)),), torch_shape=(width,))
    yield _heads_in(f"{attention}/out/kernel", f"{torch}.attention.output.dense.weight", (heads, size), width)
    yield Leaf(f"{attention}/out/bias", f"{torch}.attention.output.dense.bias")
    for flax, name in (("Dense_0", "intermediate.dense"), ("Dense_1", "output.dense")):
        yield from _dense(f"{block}/MlpBlock_0/{flax}", f"{torch}.{name}")
    yield from _norm("params/Transformer/encoder_norm", f"{prefix}layernorm")
    yield from (replace(leaf, optional=True) for leaf in _dense("params/head", "classifier"))


def _norm(flax: str, torch: str) -> list[Leaf]:
    return [Leaf(f"{flax}/scale", f"{torch}.weight"), Leaf(f"{flax}/bias", f"{torch}.bias")]


def _dense(flax: str, torch: str) -> list[Leaf]:
    return [Leaf(f"{flax}/kernel", f"{torch}.weight", (Permute((1, 0)),)), Leaf(f"{flax}/bias", f"{torch}.bias")]


def _heads_out(flax: str, torch: str, heads: tuple[int, ...], width: int) -> Leaf:
    """A projection from the width to heads: (heads * size, width) becomes (width, heads, size)."""
    moves = (Permute((1, 0)), Reshape((width, *heads)))
    return Leaf(flax, torch, moves, torch_shape=(prod(heads), width))


def _heads_in(flax: str, torch: str, heads: tuple[int, ...], width: int) -> Leaf:
    """A projection from heads to the width: (width, heads * size) becomes (heads, size, width)."""
    moves = (Permute((1, 0)), Reshape((*heads, width)))
    return Leaf(flax, torch, moves, torch_shape=(width, prod(heads)))


# --- MaxText ----------------------------------------------------------------------------------------------------------

SCANNED = 1  # the axis along which MaxText stacks its layers, unless told otherwise (param_scan_axis)
Place: TypeAlias = tuple[str, int]  # of one layer: the name before and after `{}`, and where in the stack it stands


def _maxtext_llama(prefix: str, config: Config) -> Iterator[Leaf]:
    yield Leaf("params/token_embedder/embedding", f"{prefix}embed_tokens.weight")
    yield Leaf("params/decoder/decoder_norm/scale", f"{prefix}norm.weight")
    yield Leaf("params/decoder/logits_dense/kernel", "lm_head.weight", (Permute((1, 0)),), optional=True)
    norms = {
        "pre_self_attention_layer_norm": "input_layernorm",
        "post_self_attention_layer_norm": "post_attention_layernorm",
    }
    for number in range(config["num_hidden_layers"]):
        torch = f"{prefix}layers.{number}"
        yield from _maxtext_layer(torch, "params/decoder/layers/{}", number, config, norms, rotated=True)


def _maxtext_gemma2(prefix: str, config: Config) -> Iterator[Leaf]:
    """Two layers, a local and a global one, make one of MaxText's."""
    yield from _maxtext_gemma_ends(prefix, config)
    for number in range(config["num_hidden_layers"]):
        kind = ("local", "global")[number % 2]
        path = f"params/decoder/layers/{{}}_{kind}"
        yield from _maxtext_layer(
            f"{prefix}layers.{number}", path, number // 2, config, _GEMMA_NORMS, shift=1.0, rotated=False
        )


def _maxtext_gemma3(prefix: str, config: Config) -> Iterator[Leaf]:
    """Six layers make one of MaxText's; those left over are not stacked."""
    yield from _maxtext_gemma_ends(prefix, config)
    stacked = config["num_hidden_layers"] // 6 * 6
    for number in range(config["num_hidden_layers"]):
        torch = f"{prefix}layers.{number}"
        place = number // 6 if number < stacked else None
        path = f"params/decoder/layers{'' if number < stacked else '_remainder'}/layers_{number % 6}"
        yield from _maxtext_layer(torch, f"{path}/{{}}", place, config, _GEMMA_NORMS, shift=1.0, scaled=False)
        for flax, name in (("query_norm", "q_norm"), ("key_norm", "k_norm")):
            leaf = Leaf(f"{path}/self_attention/{flax}/scale", f"{torch}.self_attn.{name}.weight", shift=1.0)
            yield _stacked(leaf, place, (config["head_dim"],))


_GEMMA_NORMS = {
    "pre_self_attention_norm": "input_layernorm",
    "post_self_attention_norm": "post_attention_layernorm",
    "pre_ffw_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def _maxtext_gemma_ends(prefix: str, config: Config) -> Iterator[Leaf]:
    # MaxText does not multiply the embedding in its forward pass; the weights are multiplied beforehand.
    scale = sqrt(config["hidden_size"])
    yield Leaf("params/token_embedder/embedding", f"{prefix}embed_tokens.weight", scale=scale)
    yield Leaf("params/decoder/decoder_norm/scale", f"{prefix}norm.weight", shift=1.0)


def _maxtext_layer(
    torch: str,
    path: str,
    place: int | None,
    config: Config,
    norms: Mapping[str, str],
    *,
    shift: float = 0.0,
    rotated: bool = False,
    scaled: bool = True,
) -> Iterator[Leaf]:
    """One decoder layer. rotated: pairs of the rotary embedding lie side by side, not half a head apart; scaled: the
    queries are divided beforehand by what the scores are to be divided by."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    size = config.get("head_dim") or width // heads
    groups = config.get("num_key_value_heads") or heads
    for flax, name in norms.items():
        yield _stacked(Leaf(f"{path.format(flax)}/scale", f"{torch}.{name}.weight", shift=shift), place, (width,))
    attention = path.format("self_attention")
    for flax, name, count in (("query", "q_proj", heads), ("key", "k_proj", groups), ("value", "v_proj", groups)):
        leaf = _heads_out(f"{attention}/{flax}/kernel", f"{torch}.self_attn.{name}.weight", (count, size), width)
        if rotated and flax != "value":
            halves = (Reshape((count, 2, size // 2, width)), Permute((3, 0, 2, 1)), Reshape((width, count, size)))
            leaf = replace(leaf, moves=halves)
        if scaled and flax == "query":
            leaf = replace(leaf, scale=1 / sqrt(config.get("query_pre_attn_scalar") or size))
        yield _stacked(leaf, place, (width, count, size))
    leaf = _heads_in(f"{attention}/out/kernel", f"{torch}.self_attn.o_proj.weight", (heads, size), width)
    yield _stacked(leaf, place, (heads, size, width))
    inner = config["intermediate_size"]
    for flax, name, shape in (
        ("wi_0", "gate_proj", (width, inner)),
        ("wi_1", "up_proj", (width, inner)),
        ("wo", "down_proj", (inner, width)),
    ):
        moves = (Permute((1, 0)),)
        leaf = Leaf(f"{path.format('mlp')}/{flax}/kernel", f"{torch}.mlp.{name}.weight", moves, torch_shape=shape[::-1])
        yield _stacked(leaf, place, shape)


def _stacked(leaf: Leaf, place: int | None, shape: tuple[int, ...]) -> Leaf:
    """The leaf as one place along the axis of the layers."""
    if place is None:
        return leaf
    one: Shape = (*shape[:SCANNED], 1, *shape[SCANNED:])
    before = leaf.torch_shape or shape
    return replace(
        leaf, moves=(*leaf.moves, Reshape(tuple(n or 1 for n in one))), torch_shape=before,
        put=(Slice(SCANNED, place, place + 1),),
    )  # fmt: skip


LAYOUTS: dict[str, dict[str, Callable[[str, Config], Iterator[Leaf]]]] = {
    "big_vision": {"vit": _big_vision_vit},
    "maxtext": {
        "llama": _maxtext_llama,
        "mistral": _maxtext_llama,
        "gemma2": _maxtext_gemma2,
        "gemma3_text": _maxtext_gemma3,
    },
}
