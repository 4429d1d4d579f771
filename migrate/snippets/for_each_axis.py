from __future__ import annotations


def for_each_axis(size, count):
    """The sizes of a window along each axis: torch takes one number for all of them as well."""
    return (size,) * count if isinstance(size, int) else tuple(size)
