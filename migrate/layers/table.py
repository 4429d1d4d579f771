"""The layer table: every torch layer that is known, by its qualified name."""

from __future__ import annotations

from migrate.layers import (
    activation,
    attention,
    convolution,
    dropout,
    graphs,
    lazy,
    linear,
    normalization,
    padding,
    pooling,
    recurrent,
    reparametrized,
    resizing,
    shape,
)
from migrate.layers.layer import Layer

FAMILIES = (
    *(linear, convolution, normalization, activation, pooling, padding, dropout, resizing, shape),
    *(recurrent, attention, lazy, reparametrized, graphs),
)


def _collect() -> dict[str, Layer]:
    table: dict[str, Layer] = {}
    for family in FAMILIES:
        for layer in family.LAYERS:
            if layer.torch in table:
                raise ValueError(f"{layer.torch} is in the layer table twice")
            table[layer.torch] = layer
    return table


TABLE: dict[str, Layer] = _collect()


def is_model_alone(name: str) -> bool:
    """Whether a layer outside of any module is a model, with a state: it has weights, or a train mode. Others are no
    more than functions."""
    return name == "torch.nn.Sequential" or (name in TABLE and bool(TABLE[name].weights or TABLE[name].trains))
