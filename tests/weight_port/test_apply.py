"""Moves applied to arrays: there and back is the same array, and shapes are those that the moves promise."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrate.layers import moves
from migrate.layers.moves import Flip, Permute, Reshape
from migrate.manifest import Leaf, ModelWeights
from weight_port import port_state_dict, unport_tree
from weight_port.views import moved as apply_moves


@st.composite
def chains(draw) -> tuple[tuple[moves.Move, ...], tuple[int, ...]]:
    """A shape and moves that apply to it, reshapes among them."""
    first = shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    chain: list[moves.Move] = []
    for _ in range(draw(st.integers(0, 4))):
        axes = range(len(shape))
        kind = draw(st.sampled_from(["permute", "flip", "merge", "split"]))
        if kind == "permute":
            chain.append(Permute(tuple(draw(st.permutations(axes)))))
        elif kind == "flip":
            chain.append(Flip(tuple(draw(st.lists(st.sampled_from(axes), unique=True))) if shape else ()))
        elif kind == "merge" and len(shape) > 1:
            chain.append(Reshape((shape[0] * shape[1], *shape[2:])))
        else:
            chain.append(Reshape((1, *shape)))
        shape = chain[-1].shape(shape)
    return tuple(chain), first


@given(chains())
def test_there_and_back(case):
    chain, shape = case
    array = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    moved = apply_moves(array, chain)
    assert moved.shape == moves.shape_after(chain, shape)
    back = apply_moves(moved, moves.inverse(chain, shape, moved.shape))
    assert back.shape == shape and (back == array).all()


@given(chains(), st.booleans())
def test_the_torch_shape_may_have_a_gap(case, last):
    chain, shape = case
    if not shape or 0 in shape:
        shape = (2, 3)
        chain = (Reshape((6,)),)
    known = (*shape[:-1], None) if last else (None, *shape[1:])
    array = np.arange(np.prod(shape)).reshape(shape)
    model = ModelWeights("Net", (Leaf("params/w", "w", chain, None, torch_shape=known),))
    assert (unport_tree(port_state_dict({"w": array}, model), model)["w"] == array).all()


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int8", "bool", "complex64", "bfloat16", "float8_e5m2"]
)
def test_bits_are_kept_both_ways(dtype):
    numpy_type = np.dtype(getattr(ml_dtypes, dtype, dtype))
    raw = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 256, 24 * numpy_type.itemsize, np.uint8)
    weight = raw.view(numpy_type).reshape(2, 3, 4)
    model = ModelWeights("Net", (Leaf("params/conv/kernel", "conv.weight", (Permute((2, 1, 0)), Flip((0,)))),))
    tree = port_state_dict({"conv.weight": weight}, model)
    assert tree["params"]["conv"]["kernel"].dtype == numpy_type
    back = unport_tree(tree, model)["conv.weight"]
    assert back.dtype == numpy_type and back.tobytes() == weight.tobytes()
