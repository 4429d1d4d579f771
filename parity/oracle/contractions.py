"""Sums of products: `dot_general` and `conv_general_dilated` on arrays of numbers."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from parity.oracle.numbers import Numbers


def dot_general(numbers: Numbers, params: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    (left_sum, right_sum), (left_batch, right_batch) = params["dimension_numbers"]
    left_free = [axis for axis in range(left.ndim) if axis not in (*left_sum, *left_batch)]
    right_free = [axis for axis in range(right.ndim) if axis not in (*right_sum, *right_batch)]
    batch = [left.shape[axis] for axis in left_batch]
    rows, columns = [left.shape[a] for a in left_free], [right.shape[a] for a in right_free]
    inner = prod(left.shape[axis] for axis in left_sum)
    one = left.transpose(*left_batch, *left_free, *left_sum).reshape(prod(batch), prod(rows), inner)
    other = right.transpose(*right_batch, *right_sum, *right_free).reshape(prod(batch), inner, prod(columns))
    made = np.empty((prod(batch), prod(rows), prod(columns)), object)
    for i in range(prod(batch)):
        made[i] = _product(numbers, one[i], other[i])
    return made.reshape(*batch, *rows, *columns)


def _product(numbers: Numbers, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    if 0 in one.shape or 0 in other.shape:
        return numbers.array(np.zeros((one.shape[0], other.shape[1])))
    return numbers.matrix_product(one, other)


def convolve(numbers: Numbers, params: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The patches of the input, as rows of a matrix, times the kernel."""
    layout = params["dimension_numbers"]
    images, kernel = left.transpose(layout.lhs_spec), right.transpose(layout.rhs_spec)  # (batch, in, …), (out, in, …)
    batch_groups, groups = params["batch_group_count"], params["feature_group_count"]
    if batch_groups > 1:
        parts = zip(np.split(images, batch_groups), np.split(kernel, batch_groups), strict=True)
        made = np.concatenate([_grouped(numbers, params, i, k, 1) for i, k in parts], axis=1)
    else:
        made = _grouped(numbers, params, images, kernel, groups)
    return made.transpose(np.argsort(layout.out_spec))


def _grouped(numbers: Numbers, params: Any, images: np.ndarray, kernel: np.ndarray, groups: int) -> np.ndarray:
    parts = zip(np.split(images, groups, axis=1), np.split(kernel, groups), strict=True)
    return np.concatenate([_convolved(numbers, params, i, k) for i, k in parts], axis=1)


def _convolved(numbers: Numbers, params: Any, images: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """images: (batch, in, *size), kernel: (out, in, *window); the result is (batch, out, *places)."""
    taken = [
        positions(length, window, stride, padding, left_dilation, right_dilation)
        for length, window, stride, padding, left_dilation, right_dilation in zip(
            images.shape[2:], kernel.shape[2:], params["window_strides"], params["padding"],
            params["lhs_dilation"], params["rhs_dilation"], strict=True,
        )
    ]  # fmt: skip
    padded = np.full([n + 1 if axis >= 2 else n for axis, n in enumerate(images.shape)], numbers.number(0.0), object)
    padded[tuple(slice(0, n) for n in images.shape)] = images  # the last place of each axis is the padding's zero
    patches = padded
    for axis, found in enumerate(taken):  # (…, length, …) becomes (…, places, window, …)
        patches = np.take(patches, found, axis=2 + 2 * axis)
    spatial = len(taken)
    places = [2 + 2 * axis for axis in range(spatial)]
    windows = [3 + 2 * axis for axis in range(spatial)]
    out = [patches.shape[axis] for axis in places]
    rows = patches.transpose(0, *places, 1, *windows).reshape(images.shape[0] * prod(out), prod(kernel.shape[1:]))
    product = _product(numbers, rows, kernel.reshape(kernel.shape[0], -1).T)
    return np.moveaxis(product.reshape(images.shape[0], *out, kernel.shape[0]), -1, 1)


def positions(
    length: int, window: int, stride: int, padding: tuple[int, int], left_dilation: int, right_dilation: int
) -> np.ndarray:
    """For each place and each element of the window the index in the input; `length` where there is a zero."""
    dilated = max((length - 1) * left_dilation + 1, 0) if length else 0
    reach = (window - 1) * right_dilation + 1
    places = max((dilated + sum(padding) - reach) // stride + 1, 0)
    at = np.arange(places)[:, None] * stride + np.arange(window) * right_dilation - padding[0]
    inside = (at >= 0) & (at < dilated) & (at % left_dilation == 0)
    return np.where(inside, at // left_dilation, length)
