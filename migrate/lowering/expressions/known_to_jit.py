"""The arguments of torch's functions that make a program another one: jit must know their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from migrate.known.kinds import UNKNOWN, Items, Kind, Number, Plain, Tensor
from migrate.lowering.scope import Scope
from migrate.rules.rule import Rule, Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_AXES = "dim dims dim0 dim1 dim2 dimension destination start_dim end_dim keepdim diagonal offset"
_SHAPES = (
    "size sizes shape n N r sz row col k chunks split_sizes split_size_or_sections length total_length start end step "
    "steps repeats pad kernel_size stride padding dilation output_padding output_size groups num_groups num_heads "
    "scale_factor upscale_factor downscale_factor normalized_shape sample_shape num_classes num_samples n_fft "
    "hop_length win_length window_length bins minlength"
)
_WAYS = (
    "correction unbiased reduction training decimals norm ord mode label_smoothing p dropout_p sorted descending "
    "stable largest right replacement include_self approximate is_causal enable_gqa blank zero_infinity full log_input "
    "log_target swap align_corners antialias batch_first center normalized onesided periodic hard interpolation "
    "rounding_mode with_replacement increasing average_attn_weights need_weights return_inverse return_counts"
)
_ALWAYS = frozenset(f"{_AXES} {_SHAPES} {_WAYS}".split())
# Where they are known to be numbers: some functions take tensors under these names.
_NUMBERS = frozenset({"source", "indices_or_sections", "s"})
_STARS = frozenset({"size", "sizes", "shape", "dims", "repeats"})


def need_value(scope: Scope, node: Expr) -> None:
    """Notes that jit must know the value of an expression: it is a size, or an axis."""
    names = {path for path in numbers_in(node) if not isinstance(scope.kind_of_name(path), Tensor)}
    if scope.region is not None:
        scope.region.constants |= names
    if scope.facts is not None:
        scope.facts.found_needed |= names


def numbers_in(node: cst.CSTNode) -> set[str]:
    """The names and dotted names in an expression that may be numbers, those of shapes and receivers of methods left
    out: `n` and `args.k` of `[n * x.shape[0], len(x), args.k, x.size(1)]`."""
    if isinstance(node, cst.Name | cst.Attribute) and (path := nodes.dotted(node)) is not None:
        return set() if {"shape", "ndim", "size"} & set(path.split(".")) else {path}
    if isinstance(node, cst.Call):
        if nodes.dotted(node.func) == "len":
            return set()
        return {name for arg in node.args for name in numbers_in(arg.value)}
    found = set[str]()
    for child in node.children:
        found |= numbers_in(child)
    return found


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
