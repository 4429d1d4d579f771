"""Small models of published classes with random weights: ported by family, run in both frameworks, compared.

`python -m tests.weight_port.family_models` prints, as JSON, how far the outputs are apart; tests read it. A process of
its own: transformers' Flax classes warn, want an older JAX (see `old_clip`), and are compared in float64 too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import diffusers
import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers as hf
from flax import linen as nn

from migrate.manifest import ModelWeights
from tests.compiling import compile_as, compile_by_llvm_alone, soon_compiling
from tests.weight_port.layout_models import BigVisionViT, maxtext_logits
from weight_port import family_of, family_weights, open_checkpoint, port_state_dict, unport_tree

Arrays = dict[str, np.ndarray]

TEXT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 50,
    "max_position_embeddings": 32,
}
DECODER = TEXT | {"num_key_value_heads": 1, "head_dim": 8}
VISION = {key: TEXT[key] for key in list(TEXT)[:4]} | {"image_size": 16, "patch_size": 8}
LAYERS = {"d_model": 16, "vocab_size": 50, "decoder_start_token_id": 3}
WHISPER = LAYERS | {
    **{f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")},
    **{f"{side}_ffn_dim": 32 for side in ("encoder", "decoder")},
    "max_source_positions": 10,
    "max_target_positions": 20,
    "num_mel_bins": 8,
    **{f"{token}_token_id": i for i, token in enumerate(("pad", "bos", "eos"))},
}

VAE = {
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "block_out_channels": (8, 16),
    "latent_channels": 4,
    "norm_num_groups": 4,
    "sample_size": 16,
}
UNET = {  # the Flax class always has 32 groups
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "cross_attention_dim": 12,
    "attention_head_dim": 4,
    "sample_size": 8,
}

IDS = np.random.default_rng(0).integers(4, 50, (2, 9))
PIXELS = np.random.default_rng(1).normal(size=(2, 3, 16, 16))
MEL = np.random.default_rng(2).normal(size=(2, 8, 20))

# family: (configuration, class, inputs)
MODELS: dict[str, tuple[Any, str, Arrays]] = {
    "gpt2": (
        hf.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, n_positions=20),
        "GPT2LMHeadModel",
        {"input_ids": IDS},
    ),
    "bert": (hf.BertConfig(**TEXT), "BertForMaskedLM", {"input_ids": IDS}),
    "vit": (hf.ViTConfig(**VISION), "ViTForImageClassification", {"pixel_values": PIXELS}),
    "clip": (
        hf.CLIPConfig(text_config=TEXT | {"eos_token_id": 49}, vision_config=VISION, projection_dim=8),
        "CLIPModel",
        {"input_ids": IDS, "pixel_values": PIXELS},
    ),
    "clip_text_model": (hf.CLIPTextConfig(**TEXT, eos_token_id=49), "CLIPTextModel", {"input_ids": IDS}),
    "clip_vision_model": (hf.CLIPVisionConfig(**VISION), "CLIPVisionModel", {"pixel_values": PIXELS}),
    "t5_encoder": (
        hf.T5Config(**LAYERS, d_kv=8, d_ff=32, num_layers=2, num_heads=2),
        "T5EncoderModel",
        {"input_ids": IDS},
    ),
    "t5": (
        hf.T5Config(**LAYERS, d_kv=8, d_ff=32, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu"),
        "T5ForConditionalGeneration",
        {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]},
    ),
    "whisper": (
        hf.WhisperConfig(**WHISPER),
        "WhisperForConditionalGeneration",
        {"input_features": MEL, "decoder_input_ids": IDS},
    ),
    # its Flax class takes no fewer heads for keys than for queries
    "llama": (hf.LlamaConfig(**DECODER | {"num_key_value_heads": 2}), "LlamaForCausalLM", {"input_ids": IDS}),
    "mistral": (hf.MistralConfig(**DECODER, sliding_window=32), "MistralForCausalLM", {"input_ids": IDS}),
    "qwen2": (hf.Qwen2Config(**DECODER | {"num_key_value_heads": 2}), "Qwen2ForCausalLM", {"input_ids": IDS}),
    "qwen3": (hf.Qwen3Config(**DECODER), "Qwen3ForCausalLM", {}),
    "gemma": (hf.GemmaConfig(**DECODER), "GemmaForCausalLM", {"input_ids": IDS}),
    "gemma2": (hf.Gemma2Config(**DECODER), "Gemma2ForCausalLM", {}),
    "gemma3_text": (hf.Gemma3TextConfig(**DECODER), "Gemma3ForCausalLM", {}),
    "gemma3_text alone": (hf.Gemma3TextConfig(**DECODER), "Gemma3TextModel", {}),
    "resnet": (
        hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 1]),
        "ResNetForImageClassification",
        {"pixel_values": PIXELS},
    ),
    "resnet_basic": (
        hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 1], layer_type="basic"),
        "ResNetForImageClassification",
        {"pixel_values": PIXELS},
    ),
    "convnext": (
        hf.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
        "ConvNextForImageClassification",
        {},
    ),
}

# family, layout: (configuration, class, inputs, what the layout's owner computes)
LAYOUTS: dict[tuple[str, str], tuple[Any, str, Arrays]] = {
    ("vit", "big_vision"): (
        hf.ViTConfig(**VISION, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, num_labels=3),
        "ViTForImageClassification",
        {"pixel_values": PIXELS},
    ),
    ("llama", "maxtext"): (hf.LlamaConfig(**DECODER), "LlamaForCausalLM", {"input_ids": IDS}),
    ("gemma2", "maxtext"): (
        hf.Gemma2Config(**DECODER | {"num_hidden_layers": 4}, query_pre_attn_scalar=5, attn_implementation="eager"),
        "Gemma2ForCausalLM",
        {"input_ids": IDS},
    ),
    ("gemma3_text", "maxtext"): (
        hf.Gemma3TextConfig(**DECODER | {"num_hidden_layers": 7}),
        "Gemma3ForCausalLM",
        {"input_ids": IDS},
    ),
}


def of_diffusers() -> dict[str, Any]:
    """The autoencoder and the UNet of Stable Diffusion, by diffusers' own Flax classes.

    Its UNet takes GELU for its tanh form, 1.4e-5 off; here it takes torch's, so that the weights are what is compared.
    """
    draw = np.random.default_rng(3)
    images, latents = draw.normal(size=(2, 3, 16, 16)), draw.normal(size=(2, 4, 8, 8))
    times, text = np.array([3, 7]), draw.normal(size=(2, 5, 12))
    found: dict[str, Any] = {}
    for name, config, inputs in (
        ("AutoencoderKL", VAE, [images]),
        ("UNet2DConditionModel", UNET, [latents, times, text]),
    ):
        model = randomised(getattr(diffusers, name)(**config))
        family, state, weights = saved(model, file="diffusion_pytorch_model.safetensors")
        variables = port_state_dict(state, weights)
        back = unport_tree(variables, weights)
        found[family] = {"round trip": all(np.array_equal(back[key], state[key]) for key in state)}
        for dtype in (np.float32, np.float64):
            typed = [array.astype(dtype) if array.dtype.kind == "f" else array for array in inputs]
            with torch.no_grad():
                theirs = model.to(torch.float64 if dtype is np.float64 else torch.float32)(
                    *map(torch.from_numpy, typed)
                ).sample.numpy()
            flax = getattr(diffusers, f"Flax{name}")(**config, dtype=dtype)
            params = jax.tree.map(lambda leaf, dtype=dtype: leaf.astype(dtype), variables["params"])
            with mock.patch.object(nn, "gelu", partial(nn.gelu, approximate=False)):
                ours = jax.jit(flax.apply)({"params": params}, *typed).sample
            found[family][np.dtype(dtype).name] = relative(np.asarray(ours), theirs)
    return found


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, over the largest of what was expected."""
    assert expected.shape == found.shape
    return float(np.abs(expected - found).max() / np.abs(expected).max())


def main() -> None:
    warnings.simplefilter("ignore")
    hf.logging.set_verbosity_error()
    diffusers.logging.set_verbosity_error()
    vars(jnp)["clip"] = old_clip(jnp.clip)
    compile_by_llvm_alone()
    jax.config.update("jax_enable_x64", True)
    compile_as(soon_compiling({}))
    found = {name: compared(*MODELS[name]) for name in MODELS}
    for (_, layout), (config, name, inputs) in LAYOUTS.items():
        found[f"{config.model_type} {layout}"] = compared_layout(config, name, inputs, layout)
    print(json.dumps(found | of_diffusers()))


def old_clip(clip: Callable[..., Any]) -> Callable[..., Any]:
    """jnp.clip with the keywords that it had when transformers' Flax classes were written."""
    return lambda a, *bounds, a_min=None, a_max=None, **rest: (
        clip(a, *bounds, **rest) if a_min is a_max is None else clip(a, a_min, a_max)
    )


def compared(config: Any, name: str, inputs: Arrays) -> dict[str, Any]:
    """Whether the way there and back keeps every bit; and where a Flax class exists, the differences of the outputs."""
    model = random_model(config, name)
    family, state, weights = saved(model)
    variables = port_state_dict(state, weights)
    back = unport_tree(variables, weights)
    lost = [key for key in state if key not in back and not key.endswith("num_batches_tracked")]
    result: dict[str, Any] = {
        "family": family,
        "round trip": not lost and all(np.array_equal(back[key], state[key]) for key in back if key in state),
    }
    if inputs:
        for dtype in (np.float32, np.float64):
            result[np.dtype(dtype).name] = difference(model, name, variables, inputs, dtype)
    return result


def compared_layout(config: Any, name: str, inputs: Arrays, layout: str) -> dict[str, Any]:
    """How far what the layout's owner computes is from torch, and how far the way back is from where it began."""
    model = random_model(config, name).double()
    _, state, weights = saved(model, layout)
    variables = port_state_dict(state, weights)
    back = unport_tree(variables, weights)
    typed = {key: value if value.dtype.kind == "i" else value.astype(np.float64) for key, value in inputs.items()}
    torch.set_default_dtype(torch.float64)
    with torch.no_grad():
        theirs = model(**{key: torch.from_numpy(value) for key, value in typed.items()}).logits.numpy()
    torch.set_default_dtype(torch.float32)
    params = jax.tree.map(jnp.asarray, variables)
    if layout == "big_vision":
        vit = BigVisionViT(3, config.patch_size, 16, 2, 2, 32, jnp.float64)
        ours = jax.jit(vit.apply)(params, typed["pixel_values"].transpose(0, 2, 3, 1))
    else:
        ours = jax.jit(lambda params: maxtext_logits(params, typed["input_ids"], config))(params["params"])
    again = port_state_dict(back, weights)
    leaves = zip(jax.tree.leaves(again), jax.tree.leaves(variables), strict=True)
    return {
        "round trip": max(float(np.abs(one - other).max()) for one, other in leaves) < 1e-12,
        "float64": relative(np.asarray(ours), theirs),
    }


def random_model(config: Any, name: str) -> Any:
    """Every weight drawn anew: what is initialised to zeros or ones would hide where it goes."""
    return randomised(getattr(hf, name)(config))


def randomised(model: Any) -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.2)
    return model.eval()


def saved(model: Any, layout: str | None = None, file: str = "model.safetensors") -> tuple[str, Arrays, ModelWeights]:
    """The family, the state dict and the manifest of a model that was saved."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        checkpoint = open_checkpoint(Path(folder, file))
        config = json.loads(Path(folder, "config.json").read_text())
        family = family_of(config)
        assert family is not None, config
        weights = family_weights(family, checkpoint, config=config, layout=layout)
        return family, {key: np.array(checkpoint.read(key)) for key in checkpoint}, weights


def difference(model: Any, name: str, variables: Any, inputs: Arrays, dtype: Any) -> float:
    """The largest difference of the outputs, over the largest output."""
    typed = {key: value.astype(dtype) if value.dtype.kind == "f" else value for key, value in inputs.items()}
    torch_type = torch.float64 if dtype is np.float64 else torch.float32
    torch.set_default_dtype(torch_type)  # of the masks that the models make
    with torch.no_grad():
        theirs = model.to(torch_type)(**{key: torch.from_numpy(value) for key, value in typed.items()})
    torch.set_default_dtype(torch.float32)
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), variables)
    if name == "Qwen2ForCausalLM":  # it has no class of its own: Llama's with biases, of which one has to be zero
        name, config = "LlamaForCausalLM", hf.LlamaConfig(**model.config.to_dict(), attention_bias=True)
        for layer in params["params"]["model"]["layers"].values():
            layer["self_attn"]["o_proj"]["bias"] = jnp.zeros(config.hidden_size, dtype)
    else:
        config = model.config
    flax = getattr(hf, f"Flax{name}")(config, dtype=dtype, _do_init=False)
    key = next(key for key in ("logits", "logits_per_image", "last_hidden_state") if key in theirs)
    # one program: each operation by itself would be compiled by itself
    ours = jax.jit(lambda params: flax(**typed, params=params)[key])(params if len(variables) > 1 else params["params"])
    return relative(np.asarray(ours), theirs[key].numpy())


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main())
