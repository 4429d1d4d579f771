"""Layers that a script calls by themselves: more than one input, arguments by name, a layer that a stack copies."""

import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn

x = torch.linspace(-1, 1, 40).reshape(4, 2, 5)
"""
STEPS = {
    "LSTMs, one of which is given its state": """
a, b = nn.LSTM(5, 3), nn.LSTM(3, 4, batch_first=True)
y, _ = a(x)
y, (h, c) = b(y, (torch.ones(1, 4, 4), torch.zeros(1, 4, 4)))
shown = [tuple(v.shape) for v in (y, h, c)]
""",
    "attention with a mask by its name": """
layer = nn.MultiheadAttention(5, 1)
mask = torch.triu(torch.ones(4, 4), 1).bool()
y, w = layer(query=x, key=x, value=x, attn_mask=mask)
shown = [tuple(y.shape), tuple(w.shape), round(w[0, 0, 0].item(), 4), w[1, 0, 1].item()]
""",
    "two layers of two inputs": """
a, b = nn.Bilinear(5, 5, 2), nn.Bilinear(5, 5, 3)
shown = [tuple(v.shape) for v in (a(x, x), b(x, x + 1))]
""",
    "a decoder's layer, which has a mode": """
layer = nn.TransformerDecoderLayer(5, 1, 8)
layer.eval()
shown = [tuple(layer(x, x + 1).shape), tuple(layer(x, x + 1, tgt_mask=torch.zeros(4, 4)).shape)]
""",
    "a layer that a stack copies": """
layer = nn.TransformerEncoderLayer(d_model=5, nhead=1, dim_feedforward=8, batch_first=True)
stack = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
stack.eval()
shown = [tuple(stack(x).shape)]
""",
    "and that is called itself": """
width = 5
layer = nn.TransformerDecoderLayer(width, 1, 8, dropout=0.0)
stack = nn.TransformerDecoder(decoder_layer=layer, num_layers=2)
shown = [tuple(layer(x, x).shape), tuple(stack(x, x).shape)]
""",
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_what_they_give(steps: str) -> None:
    """Their initial weights are random: what the layers compute is compared in test_layers.py."""
    theirs, ours = rewritten.both(HEAD + steps)
    assert ours["shown"] == theirs["shown"]


def test_a_layer_that_only_a_stack_copies_has_no_line_of_its_own() -> None:
    text = rewritten.clean(HEAD + STEPS["a layer that a stack copies"]).text
    assert "\nlayer" not in text and "TransformerEncoder(\n" in text


@pytest.mark.parametrize("again", ["layer = nn.TransformerEncoderLayer(5, 1)", "width = 3"])
def test_a_layer_whose_name_is_given_again_is_not_moved(again: str) -> None:
    lines = (
        f"width = 5\nlayer = nn.TransformerEncoderLayer(width, 1)\n{again}\nstack = nn.TransformerEncoder(layer, 2)\n"
    )
    found = rewritten.conversion(HEAD + lines + "print(stack(x).shape)\n").report.diagnostics
    assert "MIG203" in {one.code for one in found}


def test_what_is_looked_at_has_no_weights() -> None:
    text = rewritten.clean(HEAD + "layer = nn.Bilinear(3, 2, 1)\nprint(layer)\n").text
    assert "layer = Bilinear(1)\n" in text and ".init(" not in text
