"""Replaces the masks of torch's dropout, functional and in attention, by the stand-in, in torch's own arithmetic."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from parity import standin
from parity.child import patch


def _mask_like(input: Tensor, keep: float, shape: Sequence[int] | None = None) -> Tensor:
    mask = standin.bernoulli(tuple(input.shape if shape is None else shape), keep)
    return torch.from_numpy(mask).to(dtype=input.dtype, device=input.device)


def _dropped(input: Tensor, p: float, shape: Sequence[int] | None = None) -> Tensor:
    """input * mask / (1 - p), in torch's own order: the mask is divided first."""
    return input * _mask_like(input, 1.0 - p, shape).div_(1.0 - p) if p < 1 else input * 0


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not training or p == 0:
        return input
    result = _dropped(input, p)
    return input.copy_(result) if inplace else result


def _feature_dropout(unbatched: int | None) -> Callable[..., Tensor]:
    """Whole features at once. The first two axes are kept, or the first alone where the rank says "no batch axis"."""

    def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not training or p == 0:
            return input
        kept = 1 if input.dim() == unbatched else 2
        result = _dropped(input, p, (*input.shape[:kept], *(1,) * (input.dim() - kept)))
        return input.copy_(result) if inplace else result

    return dropout


def _alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    if not training or p == 0:
        return input
    alpha = -1.7580993408473766
    scale = 1.0 / math.sqrt((alpha * alpha * p + 1.0) * (1.0 - p))
    mask = _mask_like(input, 1.0 - p)
    return (input * mask + alpha * (1.0 - mask)) * scale + (-scale * p * alpha)


def install() -> None:
    """Patch torch in this process, for good."""
    _patch_attention()
    patch(torch._VF, "_pack_padded_sequence", _noting_time(torch._VF._pack_padded_sequence))
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        patch(torch._VF, name, _layer_by_layer(getattr(torch._VF, name)))
    for owner, name, dropout in (
        (F, "dropout", _dropout),
        (F, "dropout1d", _feature_dropout(unbatched=2)),
        (F, "dropout2d", _feature_dropout(unbatched=None)),
        (F, "dropout3d", _feature_dropout(unbatched=4)),
        (F, "alpha_dropout", _alpha_dropout),
        (torch, "dropout", _dropout),
        (torch, "feature_dropout", _feature_dropout(unbatched=None)),
        (torch, "alpha_dropout", _alpha_dropout),
    ):
        patch(owner, name, dropout)


def _patch_attention() -> None:
    original = F.scaled_dot_product_attention

    @functools.wraps(original)
    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        **kwargs: Any,
    ) -> Tensor:
        if dropout_p == 0.0 or kwargs.get("enable_gqa"):
            return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **kwargs)
        scores = query @ key.transpose(-2, -1) * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
        if is_causal:
            future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        if attn_mask is not None:
            scores = (
                scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
            )
        return _dropped(scores.softmax(-1), dropout_p) @ value

    F.scaled_dot_product_attention = attention


_PACKED = 2  # where the weights are among the arguments when the data is packed: after its batch sizes and the state


def _packed_mask(data: Tensor, keep: float, sizes: Tensor, order: Tensor | None) -> Tensor:
    """The mask of a padded batch, time first, for what is packed of it: at each time the sequences that go on, the
    longest first. `order`: where each of these is in the batch."""
    time = getattr(sizes, "padded_time", len(sizes))
    mask = _mask_like(data, keep, (time, int(sizes[0]), data.shape[-1])).div_(keep)
    mask = mask if order is None else mask[:, order]
    return torch.cat([mask[at, :count] for at, count in enumerate(sizes.tolist())])


def _noting_time(original: Callable[..., Any]) -> Callable[..., Any]:
    """Packing, whose result no longer tells how long the padded batch was."""

    @functools.wraps(original)
    def pack(input: Tensor, lengths: Tensor, batch_first: bool) -> Any:
        data, sizes = original(input, lengths, batch_first)
        sizes.padded_time = input.shape[1 if batch_first else 0]
        return data, sizes

    return pack


def _layer_by_layer(original: Callable[..., Any]) -> Callable[..., Any]:
    """A recurrent network, whose dropout lies inside torch between its layers: run the layers one at a time."""

    @functools.wraps(original)
    def run(data: Tensor, *args: Any) -> Any:
        order = sys._getframe(1).f_locals.get("sorted_indices")  # known to torch's module alone, which calls this
        at = next((i for i, arg in enumerate(args) if isinstance(arg, list)), 0)  # the weights; before them the state
        bias, layers, p, training, bidirectional, *rest = args[at + 1 :]
        if not (training and p > 0 and layers > 1):
            return original(data, *args)
        directions, each = 2 if bidirectional else 1, len(args[at]) // layers
        output, finals = data, []
        for layer in range(layers):
            if layer and at == _PACKED:
                output = output * _packed_mask(output, 1.0 - p, args[0], order)
            elif layer:
                output = _dropped(output, p)
            part = slice(layer * directions, (layer + 1) * directions)
            state = args[at - 1]
            state = state[part] if isinstance(state, Tensor) else tuple(s[part] for s in state)
            weights = args[at][layer * each : (layer + 1) * each]
            output, *final = original(
                output, *args[: at - 1], state, weights, bias, 1, 0.0, training, bidirectional, *rest
            )
            finals.append(final)
        return (output, *(torch.cat(parts) for parts in zip(*finals, strict=True)))

    return run
