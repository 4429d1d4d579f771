"""Each code is explained, raised somewhere, and tested."""

import re
from pathlib import Path

import pytest

import weight_port
from weight_port import PortError
from weight_port.codes import CODES

HERE = Path(__file__).parent
PACKAGE = Path(weight_port.__file__).parent


def mentioned(paths) -> set[str]:
    return {code for path in paths for code in re.findall(r'"(WPT\d{3})"', path.read_text())}


def test_every_code_is_explained_raised_and_tested():
    raised = mentioned(path for path in PACKAGE.glob("*.py") if path.name != "codes.py")
    assert raised == set(CODES)
    assert mentioned(path for path in HERE.glob("test_*.py")) == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_explanations_are_whole_sentences(code):
    title, explanation = CODES[code]
    assert title and title[-1] != "." and explanation.endswith(".") and len(explanation) > 60


def test_the_errors_text_begins_with_its_code():
    error = PortError("WPT001", "cannot open x", "Look.")
    assert str(error) == "WPT001: cannot open x\n    Look." and error.exit_code == 2


def test_the_names_in_damaged_files_do_not_flood_the_terminal():
    error = PortError("WPT001", f"cannot open {'x' * 10**6}.pt\nsecond line")
    assert len(str(error)) < 1100 and str(error).startswith("WPT001: cannot open x")
    assert error.message.endswith("x.pt\nsecond line")


def test_the_package_gives_its_names_on_demand():
    assert all(callable(getattr(weight_port, name)) for name in weight_port.__all__)
    with pytest.raises(AttributeError, match="nothing_here"):
        weight_port.nothing_here  # noqa: B018
