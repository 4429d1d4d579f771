"""Every code that porting weights can end with: a title, and the explanation that ``migrate explain`` prints."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    title: str
    explanation: str


CODES: dict[str, Code] = {
    "WPT001": Code(
        "The file cannot be opened",
        "It does not exist, is a directory, or may not be read. For a sharded model give the index file "
        "(model.safetensors.index.json or pytorch_model.bin.index.json); its shards must lie beside it.",
    ),
    "WPT002": Code(
        "Not a checkpoint",
        "The content (not the name) tells the format. Read are: .safetensors, torch.save files in today's zip format "
        "and in the one before torch 1.6, and the index of a sharded model. Flax files are read with --reverse.",
    ),
    "WPT003": Code(
        "The file is damaged",
        "It is shorter than it claims, or contradicts itself: most often a download or a copy that was cut off. "
        "Compare its size with the original's and fetch it again.",
    ),
    "WPT004": Code(
        "Which state dict?",
        "A training checkpoint may hold several: the model, its moving average, a second network. When exactly one "
        "is there it is taken; otherwise name it by --key, as listed (such as --key model or --key ema.module).",
    ),
    "WPT005": Code(
        "A tensor that cannot be read without running code",
        "Pickled code is never run: every object other than plain containers and tensors becomes an inert "
        "placeholder. That is an error only where a weight that the manifest asks for is such an object, or a tensor "
        "of a kind without a plain array: quantised, sparse, conjugated, or on no device. Save it as a plain tensor "
        "with torch (tensor.dequantize(), .to_dense(), .resolve_conj()) and port that file.",
    ),
    "WPT006": Code(
        "A tensor claims more than the file holds",
        "A strided tensor may repeat its elements (stride 0), so that a few bytes stand for gigabytes. Up to 64 MiB "
        "of such tensors are read; more are where --allow-expanded says that it is meant.",
    ),
    "WPT007": Code(
        "The manifest cannot be used",
        "The message names the place in weights.json. docs/reference/manifest.md describes the format.",
    ),
    "WPT008": Code(
        "Which model?",
        "The manifest describes several model classes, or none of that name: choose one by --model CLASS. Without a "
        "manifest, the model is a published one that config.json or --family names; docs/reference/families.md lists "
        "those that are known.",
    ),
    "WPT009": Code(
        "Not an output that can be written",
        "The ending of the output's name tells the format: .safetensors, .msgpack (flax.serialization) or .npz for "
        "Flax weights; .safetensors, .pt, .pth, .bin or .npz for torch weights (--reverse). An input is never "
        "overwritten. NumPy's .npz holds no bfloat16 or float8.",
    ),
    "WPT010": Code(
        "The output could not be written",
        "The disk is full, or the folder is missing or may not be written to. No partial file was left.",
    ),
    "WPT101": Code(
        "A key that nothing uses",
        'Every tensor of the checkpoint must fill a leaf, be tied to one that does, or stand under "unused" in the '
        "manifest with a reason. A leftover usually means another model, another prefix, or a layer that the manifest "
        'misses. If it is not needed, add it to "unused".',
    ),
    "WPT102": Code(
        "A leaf that nothing fills",
        "The manifest promises a Flax leaf for which the checkpoint has no key. A leaf is never filled with random "
        'numbers. Where a weight may be missing, mark the leaf "optional": true.',
    ),
    "WPT103": Code(
        "The wrong shape",
        "After the moves the tensor does not have the shape or the type that the manifest states: the checkpoint is "
        "from a model of another size, or the moves are those of another layer.",
    ),
    "WPT104": Code(
        "More than one leaf could take it",
        "Several leaves of the manifest match one key, and the tensor's rank does not decide between them; or two "
        "keys fill one leaf. Give the leaves names without wildcards.",
    ),
    "WPT105": Code(
        "A tie that is not one",
        "The manifest says that two keys are one tensor, but the checkpoint holds different values: the model was "
        "trained or merged without the tie. Only one leaf can hold them, so porting would lose one.",
    ),
    "WPT106": Code(
        "The type cannot hold the values",
        'The conversion that --dtype or the manifest\'s "dtype" asks for would turn finite numbers into infinities '
        "or change whole numbers. Choose a wider type.",
    ),
    "WPT107": Code(
        "No way back",
        "The torch shape cannot be told from the Flax one, since a reshape came first. State it in the manifest as "
        '"torch_shape".',
    ),
    "WPT108": Code(
        "Pieces that do not make up the whole",
        "Where several leaves take parts of one tensor, or several tensors fill one leaf, the parts must be all of it "
        "and must not overlap. A stack needs every number from 0 on.",
    ),
    "WPT109": Code(
        "More than one tensor, or more than one layout, could fill it",
        "Names, shapes and kinds of layers do not decide which torch tensor fills a Flax leaf, or how: a square matrix "
        "can be transposed or not, and equal shapes can be exchanged. Nothing is guessed: say which, by names= or "
        "layers=.",
    ),
    "WPT110": Code(
        "The output is not what the checkpoint becomes",
        "--verify read both sides again and found leaves that differ: the output was made from another checkpoint, by "
        "another manifest or with other options, or was changed or damaged since.",
    ),
    "WPT111": Code(
        "A Flax layer that computes its weight otherwise than torch",
        "linen and nnx's WeightNorm are torch's weight_norm where the epsilon is Flax's own and the kernel alone is "
        "normalised. Their SpectralNorm is not torch's spectral_norm: it takes a step of the power iteration in every "
        "call, outside of training too. Port into the plain layer, into which torch's parts are folded.",
    ),
    "WPT120": Code(
        "Whose optimizer state?",
        "Torch keys an optimizer's state by the index of a parameter in the order of its groups. State the names in "
        "that order, by group where there are several: [name for name, _ in model.named_parameters()] where the "
        "optimizer was given model.parameters(). An optimizer made from named_parameters() keeps the names itself.",
    ),
    "WPT121": Code(
        "An optimizer state that the other side cannot hold",
        "The chain has no place for what torch keeps, or its mathematics differ (amsgrad, NAdam, a momentum under a "
        "schedule): the run would go on as another optimizer. Build the chain that matches, or start its state anew.",
    ),
    "WPT122": Code(
        "A checkpoint that is not as the script saves it",
        '--as-saved makes the file that the rewritten script would have saved: "saved" in the manifest tells which '
        "entry is a model, which an optimizer, which a number of steps. The torch file has other entries, or the "
        "manifest does not tell how an optimizer is made. Port the weights alone, and the optimizer's state by "
        "--optimizer; or correct "
        "the manifest.",
    ),
}
