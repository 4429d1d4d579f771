"""The arguments of torch's functions that make a program another one: jit must know their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from migrate.known.kinds import UNKNOWN, Items, Kind, Number, Plain
from migrate.rules.rule import Rule, Value

_AXES = {
    *("dim", "dims", "dim0", "dim1", "dim2", "dimension", "destination", "start_dim", "end_dim", "keepdim"),
    *("diagonal", "offset"),
}
_SHAPES = {
    *(
        "size",
        "sizes",
        "shape",
        "n",
        "N",
        "r",
        "sz",
        "row",
        "col",
        "k",
        "chunks",
        "split_sizes",
        "length",
        "start",
        "end",
    ),
    *("pad", "kernel_size", "stride", "padding", "dilation", "output_padding", "output_size", "groups", "num_groups"),
    *("scale_factor", "upscale_factor", "downscale_factor", "normalized_shape", "sample_shape", "num_classes", "steps"),
    *("num_samples", "n_fft", "hop_length", "win_length", "window_length", "bins", "minlength", "num_heads", "step"),
    *("total_length", "split_size_or_sections", "repeats"),
}
_WAYS = {
    *("correction", "unbiased", "reduction", "training", "decimals", "norm", "ord", "mode", "label_smoothing", "p"),
    *("sorted", "descending", "stable", "largest", "right", "replacement", "include_self", "approximate", "is_causal"),
    *("enable_gqa", "blank", "zero_infinity", "full", "log_input", "log_target", "swap", "align_corners", "antialias"),
    *("batch_first", "center", "normalized", "onesided", "periodic", "hard", "interpolation", "rounding_mode"),
    *("with_replacement", "increasing", "average_attn_weights", "need_weights", "return_inverse", "return_counts"),
    *("dropout_p",),
}
_ALWAYS = frozenset(_AXES | _SHAPES | _WAYS)
# Where they are known to be numbers: some functions take tensors under these names.
_NUMBERS = frozenset({"source", "indices_or_sections", "s"})
_STARS = frozenset({"size", "sizes", "shape", "dims", "repeats"})


def values_needed(rule: Rule, bound: Mapping[str, Value], rest: Sequence[Value]) -> Iterator[Value]:
    """Those arguments of a call."""
    yield from (value for name, value in bound.items() if name in _ALWAYS and _may_be_number(value.kind))
    yield from (value for name, value in bound.items() if name in _NUMBERS and _is_number(value.kind))
    if any(parameter.star and parameter.name in _STARS for parameter in rule.parameters):
        yield from (value for value in rest if _may_be_number(value.kind))


def _is_number(kind: Kind) -> bool:
    return isinstance(kind, Number | Plain) or (isinstance(kind, Items) and _is_number(kind.joined()))


def _may_be_number(kind: Kind) -> bool:
    return kind == UNKNOWN or _is_number(kind) or (isinstance(kind, Items) and _may_be_number(kind.joined()))
