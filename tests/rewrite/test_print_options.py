"""`torch.set_printoptions`, which numpy's options are for arrays of JAX."""

import numpy as np

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.rewritten import executed

SCRIPT = """import torch

torch.set_printoptions(precision=2, linewidth=40, edgeitems=2, threshold=5, sci_mode=False)
shown = str(torch.linspace(0, 1, 9))
"""


def test_arrays_are_shown_as_tensors_were() -> None:
    with np.printoptions():
        shown = executed(convert(parse("train.py", SCRIPT)).text)["shown"]
    assert shown == "[0.   0.12 ... 0.88 1.  ]"


def test_profiles_and_powers_of_ten_need_a_person() -> None:
    script = 'import torch\ntorch.set_printoptions(profile="full")\ntorch.set_printoptions(sci_mode=True)\n'
    found = convert(parse("train.py", script)).report.diagnostics
    assert [(one.code, one.line) for one in found] == [("MIG302", 2), ("MIG302", 3)]
