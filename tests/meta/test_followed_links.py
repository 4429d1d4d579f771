"""Chains of links between places and names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from migrate.known.script import followed

LINKS = st.dictionaries(st.integers(0, 6), st.integers(0, 6))


def test_a_chain_is_followed_to_its_end() -> None:
    assert followed({"a": "b", "b": "c"}, "a") == "c"
    assert followed({"a": "b"}, "c") == "c"


@given(LINKS, st.integers(0, 6))
def test_a_circle_ends(links: dict[int, int], start: int) -> None:
    end = followed(links, start)
    assert end not in links or followed(links, end) == end  # a circle closes where it was entered
