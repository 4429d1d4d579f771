"""A short run of the fuzzer, and hypothesis on arbitrary bytes behind every format's first bytes."""

import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.weight_port import fuzz
from weight_port import pickles

BEGINNINGS = [
    b"",
    b"PK\x03\x04",
    b"\x80\x02",
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
    b"\x40\0\0\0\0\0\0\0{",
    b"{",
]


def test_mutated_checkpoints(tmp_path):
    found = list(fuzz.trials(tmp_path, 160, seed=1))
    kinds = {kind for kind, _ in found}
    assert kinds == set(fuzz.seeds(tmp_path))
    assert {what for _, what in found} <= {"read", "WPT001", "WPT002", "WPT003", "WPT004", "WPT005", "WPT006"}
    assert any(what == "read" for _, what in found) and any(what == "WPT003" for _, what in found)


@settings(max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(BEGINNINGS), st.binary(max_size=300), st.sampled_from([".pt", ".index.json", ".npz"]))
def test_arbitrary_bytes(tmp_path, beginning, rest, suffix):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(beginning + rest)
    assert fuzz.outcome(path) in {"read", "WPT001", "WPT002", "WPT003", "WPT004", "WPT005", "WPT006"}


OPCODES = [bytes([code]) for code in pickles._Unpickler.dispatch]
ARGUMENTS = [
    b"",
    b"\x00",
    b"\x01",
    b"\x02",
    b"\n",
    b"torch._utils\n_rebuild_tensor_v2\n",
    b"collections\nOrderedDict\n",
]


@settings(max_examples=300, deadline=2000)
@given(st.lists(st.tuples(st.sampled_from(OPCODES), st.sampled_from(ARGUMENTS)), max_size=40))
def test_arbitrary_instructions(program):
    data = b"\x80\x04" + b"".join(code + argument for code, argument in program) + b"."
    try:
        pickles.loads(data)
    except pickle.UnpicklingError as error:
        assert str(error)


def test_the_fuzzer_would_notice(tmp_path, monkeypatch):
    monkeypatch.setattr(pickles._Unpickler, "find_class", pickle._Unpickler.find_class)
    with pytest.raises(AssertionError, match="code was run"):
        list(fuzz.trials(tmp_path, 40, seed=0))
