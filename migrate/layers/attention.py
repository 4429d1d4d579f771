"""Attention, and the transformer layers that are made of it."""

from dataclasses import replace

from migrate.layers.layer import Layer, Layout, Part, Sample, Variant, Weight
from migrate.layers.moves import Permute

_TRANSPOSED = (Permute((1, 0)),)
_TOGETHER = "kdim in (None, embed_dim) and vdim in (None, embed_dim)"
_KEY_WIDTH, _VALUE_WIDTH = "embed_dim if kdim is None else kdim", "embed_dim if vdim is None else vdim"


_ATTENTION = (
    "{embed_dim}, {num_heads}, dropout={dropout?0.0}, bias={bias?True}, kdim={kdim?None}, vdim={vdim?None}, "
    "batch_first={batch_first?False}, training={dropout:training?False}"
)


def _inside(name: str, weights: tuple[Weight, ...]) -> tuple[Weight, ...]:
    """Weights of a part of a layer."""
    return tuple(replace(weight, torch=f"{name}.{weight.torch}", leaf=f"{name}/{weight.leaf}") for weight in weights)


def _dense(inputs: str, outputs: str, bias: str = "bias_init") -> tuple[Weight, ...]:
    return (
        Weight("weight", "kernel", (inputs, outputs), _TRANSPOSED, initializer="kernel_init"),
        Weight("bias", "bias", (outputs,), when="bias", initializer=bias),
    )


_NORM = (Weight("weight", "scale", ("d_model",)), Weight("bias", "bias", ("d_model",), when="bias"))


def _self_attention(width: str) -> tuple[Weight, ...]:
    return (
        Weight("in_proj_weight", "in_proj_weight", (width, f"3 * {width}"), _TRANSPOSED, initializer="in_proj_init"),
        Weight("in_proj_bias", "in_proj_bias", (f"3 * {width}",), when="bias"),
        *_inside("out_proj", _dense(width, width, bias="")),
    )


def _apart(name: str, width: str) -> Weight:
    return Weight(name, name, (width, "embed_dim"), _TRANSPOSED, when=f"not ({_TOGETHER})")


_FEED_FORWARD = (
    *_inside("linear1", _dense("d_model", "dim_feedforward")),
    *_inside("linear2", _dense("dim_feedforward", "d_model")),
)

_LAYER = (
    "d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5, batch_first=False, "
    "norm_first=False, bias=True, device=None, dtype=None"
)


_ENCODER_LAYER = (
    *_inside("self_attn", _self_attention("d_model")),
    *_FEED_FORWARD,
    *_inside("norm1", _NORM),
    *_inside("norm2", _NORM),
)
_DECODER_LAYER = (
    *_inside("self_attn", _self_attention("d_model")),
    *_inside("multihead_attn", _self_attention("d_model")),
    *_FEED_FORWARD,
    *_inside("norm1", _NORM),
    *_inside("norm2", _NORM),
    *_inside("norm3", _NORM),
)


def _copies(name: str, weights: tuple[Weight, ...], count: str) -> tuple[Weight, ...]:
    """The weights of the copies of a layer in a part of another one, and of the norm behind them."""
    copies = tuple(
        replace(
            weight, torch=f"{name}.layers.{{i}}.{weight.torch}", leaf=f"{name}/layers_{{i}}/{weight.leaf}", over=count
        )
        for weight in weights
    )
    return (*copies, *_inside(name, _inside("norm", _NORM)))


def _transformer_layer(
    name: str, weights: tuple[Weight, ...], call: str, note: str, samples: tuple[Sample, ...]
) -> Layer:
    return Layer(
        torch=f"torch.nn.{name}",
        signature=_LAYER,
        template=f"{name}({{d_model}}, {{nhead}}, dim_feedforward={{dim_feedforward?2048}}, dropout={{dropout?0.1}}, "
        "activation={activation:activation?nn.relu}, layer_norm_eps={layer_norm_eps?1e-5}, "
        "batch_first={batch_first?False}, norm_first={norm_first?False}, bias={bias?True}, "
        "training={dropout:training?False})",
        note=note,
        layout=Layout.FIRST,
        weights=weights,
        snippets=(name,),
        call=call,
        trains=True,
        draws=True,
        trains_if="dropout",
        samples=samples,
    )


def _stack(name: str, signature: str, call: str, note: str, samples: tuple[Sample, ...]) -> Layer:
    layer = signature.partition(",")[0]
    return Layer(
        torch=f"torch.nn.{name}",
        signature=signature,
        template=f"{name}({{{layer}}}, num_layers={{num_layers}}, norm={{norm?None}})",
        note=note,
        layout=Layout.FIRST,
        parts=(Part(layer, "layers.{i}", "layers_{i}", over="num_layers"), Part("norm", "norm", "norm")),
        snippets=(name,),
        call=call,
        samples=samples,
    )


_FAST = "Without gradients torch may take a fast path that leaves zeros where the padding mask forbids."

LAYERS = (
    Layer(
        torch="torch.nn.MultiheadAttention",
        signature="embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, "
        "vdim=None, batch_first=False, device=None, dtype=None",
        template=f"MultiheadAttention({_ATTENTION})",
        variants=(
            Variant(
                "add_bias_kv or add_zero_attn",
                f"MultiheadAttentionWithMoreKeys({_ATTENTION}, add_bias_kv={{add_bias_kv?False}}, "
                "add_zero_attn={add_zero_attn?False})",
            ),
        ),
        note="A True in a mask forbids, where in Flax it allows. A query that may look at nothing is NaN; with "
        "need_weights=False torch makes it 0.",
        layout=Layout.FIRST,
        weights=(
            replace(_self_attention("embed_dim")[0], when=_TOGETHER),
            _apart("q_proj_weight", "embed_dim"),
            _apart("k_proj_weight", _KEY_WIDTH),
            _apart("v_proj_weight", _VALUE_WIDTH),
            *(
                replace(weight, initializer="out_proj_init") if weight.torch == "out_proj.weight" else weight
                for weight in _self_attention("embed_dim")[1:]
            ),
            *(Weight(f"bias_{name}", f"bias_{name}", ("1", "1", "embed_dim"), when="add_bias_kv") for name in "kv"),
        ),
        snippets=("MultiheadAttention", "MultiheadAttentionWithMoreKeys"),
        call="query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, "
        "average_attn_weights=True, is_causal=False",
        returns="(tensor, (tensor if average_attn_weights else array) if need_weights else None)",
        trains=True,
        draws=True,
        trains_if="dropout",
        samples=(
            Sample("nn.MultiheadAttention(6, 2)", (5, 2, 6), call="x, x, x"),
            Sample(
                "nn.MultiheadAttention(6, 3, bias=False, batch_first=True)",
                (2, 5, 6),
                call="x, y, y, attn_mask=mask, average_attn_weights=False",
                inputs="y: f32[2, 4, 6]; mask: f32[5, 4]",
            ),
            Sample(
                "nn.MultiheadAttention(6, 2, kdim=3, vdim=4, dropout=1.0)",
                (5, 2, 6),
                call="x, y, z",
                inputs="y: f32[4, 2, 3]; z: f32[4, 2, 4]",
            ),
            Sample(
                "nn.MultiheadAttention(6, 2, batch_first=True)",
                (2, 3, 6),
                call="x, x, x, key_padding_mask=torch.tensor([[False, False, True], [False, True, True]]), "
                "need_weights=False",
            ),
            Sample(
                "nn.MultiheadAttention(6, 2)",
                (3, 2, 6),
                call="x, x, value=x, attn_mask=mask, key_padding_mask=padding",
                inputs="mask: f32[4, 3, 3]; padding: f32[2, 3]",
            ),
            Sample(
                "nn.MultiheadAttention(6, 2)",
                (3, 6),
                call="query=x, key=x, value=x, attn_mask=torch.triu(torch.ones(3, 3), diagonal=1).bool()",
            ),
            Sample(
                "nn.MultiheadAttention(6, 2, add_bias_kv=True, add_zero_attn=True, kdim=3, batch_first=True)",
                (2, 3, 6),
                call="x, y, x[:, :2], key_padding_mask=torch.tensor([[False, True], [False, False]]), attn_mask=mask",
                inputs="y: f32[2, 2, 3]; mask: bool[3, 2]",
            ),
            Sample("nn.MultiheadAttention(6, 2, 0.0, False, add_zero_attn=True)", (3, 6), call="x, x, x"),
        ),
    ),
    _transformer_layer(
        "TransformerEncoderLayer",
        _ENCODER_LAYER,
        "src, src_mask=None, src_key_padding_mask=None, is_causal=False",
        f"Three dropouts, not in attention's projections. {_FAST}",
        (
            Sample("nn.TransformerEncoderLayer(6, 2, 5, dropout=0.0)", (3, 2, 6)),
            Sample(
                "nn.TransformerEncoderLayer(6, 2, 5, 0.0, F.gelu, 1e-3, batch_first=True, norm_first=True, bias=False)",
                (2, 3, 6),
                call="x, src_mask=mask",
                inputs="mask: f32[3, 3]",
            ),
            Sample("nn.TransformerEncoderLayer(6, 2, 5, dropout=1.0, activation='gelu', norm_first=True)", (3, 2, 6)),
        ),
    ),
    _transformer_layer(
        "TransformerDecoderLayer",
        _DECODER_LAYER,
        "tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, "
        "tgt_is_causal=False, memory_is_causal=False",
        "Attends to itself, then to the encoder's output.",
        (
            Sample(
                "nn.TransformerDecoderLayer(6, 2, 5, dropout=0.0)", (3, 2, 6), call="x, y", inputs="y: f32[4, 2, 6]"
            ),
            Sample(
                "nn.TransformerDecoderLayer(6, 2, 5, dropout=0.0, batch_first=True, norm_first=True)",
                (2, 3, 6),
                call="x, y, nn.Transformer.generate_square_subsequent_mask(3), memory_mask=mask",
                inputs="y: f32[2, 4, 6]; mask: f32[3, 4]",
            ),
        ),
    ),
    _stack(
        "TransformerEncoder",
        "encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True",
        "src, mask=None, src_key_padding_mask=None, is_causal=None",
        "torch's copies start with equal weights; here each draws its own. " + _FAST,
        (
            Sample(
                "nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 5, dropout=0.0, batch_first=True), 2)",
                (2, 3, 6),
            ),
            Sample(
                "nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 5, 0.0, norm_first=True), num_layers=1, "
                "norm=nn.LayerNorm(6), enable_nested_tensor=False)",
                (3, 2, 6),
                call="x, mask=mask",
                inputs="mask: f32[3, 3]",
            ),
        ),
    ),
    _stack(
        "TransformerDecoder",
        "decoder_layer, num_layers, norm=None",
        "tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None, "
        "tgt_is_causal=None, memory_is_causal=False",
        "torch's copies start with equal weights; here each draws its own.",
        (
            Sample(
                "nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, 5, 0.0), 2, nn.LayerNorm(6, eps=1e-3))",
                (3, 2, 6),
                call="x, y, tgt_key_padding_mask=torch.tensor([[False, False, True], [False, False, False]])",
                inputs="y: f32[4, 2, 6]",
            ),
        ),
    ),
    Layer(
        torch="torch.nn.Transformer",
        signature="d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, "
        "dropout=0.1, activation=F.relu, custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, "
        "batch_first=False, norm_first=False, bias=True, device=None, dtype=None",
        template="Transformer({d_model?512}, {nhead?8}, num_encoder_layers={num_encoder_layers?6}, "
        "num_decoder_layers={num_decoder_layers?6}, dim_feedforward={dim_feedforward?2048}, dropout={dropout?0.1}, "
        "activation={activation:activation?nn.relu}, layer_norm_eps={layer_norm_eps?1e-5}, "
        "batch_first={batch_first?False}, norm_first={norm_first?False}, bias={bias?True}, "
        "training={dropout:training?False})",
        note="torch draws the weights of all matrices from one distribution (xavier_uniform). " + _FAST,
        layout=Layout.FIRST,
        weights=(
            *_copies("encoder", _ENCODER_LAYER, "num_encoder_layers"),
            *_copies("decoder", _DECODER_LAYER, "num_decoder_layers"),
        ),
        inside={"encoder": "torch.nn.TransformerEncoder", "decoder": "torch.nn.TransformerDecoder"},
        snippets=("Transformer",),
        call="src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None, "
        "tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None, "
        "memory_is_causal=False",
        trains=True,
        draws=True,
        trains_if="dropout",
        refuses={
            "custom_encoder": ((None,), "an encoder of the script's own is not supported"),
            "custom_decoder": ((None,), "a decoder of the script's own is not supported"),
        },
        samples=(
            Sample("nn.Transformer(6, 2, 2, 1, 5, dropout=0.0)", (3, 2, 6), call="x, y", inputs="y: f32[4, 2, 6]"),
            Sample(
                "nn.Transformer(6, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=5, "
                "dropout=0.0, activation='gelu', batch_first=True, norm_first=True, bias=False)",
                (2, 3, 6),
                call="x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(4), "
                "memory_key_padding_mask=torch.tensor([[False, False, True], [False, False, False]])",
                inputs="y: f32[2, 4, 6]",
            ),
        ),
    ),
)
