"""Recurrent networks and their cells.

The weights stay stacked as torch has them. Flax's own cells have one bias where torch has two that both learn, so that
an optimizer would move their sum by half as much; nn.GRUCell of nnx lacks one altogether.
"""

from migrate.layers.layer import Layer, Layout, Sample, Weight
from migrate.layers.moves import Permute

_TRANSPOSED = (Permute((1, 0)),)
_INITIAL = "initializers."  # a dict by the kind of weight


def _weights(gates: str, hidden: str, projected: bool) -> tuple[Weight, ...]:
    """The weights of all layers and directions. Only the first layer's width is told by the arguments alone."""
    width = f"{gates}hidden_size"
    found = []
    for suffix, backwards in (("", ""), ("_reverse", "bidirectional")):
        for number, over, inputs in (("0", "", "input_size"), ("{i}", "num_layers", "?")):

            def weight(
                kind: str, shape: tuple[str, ...], condition: str, name: str = f"l{number}{suffix}", over: str = over
            ) -> Weight:
                moves = _TRANSPOSED if len(shape) == 2 else ()
                own = f"{kind}_{name}"
                return Weight(own, own, shape, moves, "params", condition, f"{_INITIAL}{kind}", over, first=1)

            found.append(weight("weight_ih", (inputs, width), backwards))
            found.append(weight("weight_hh", (hidden, width), backwards))
            also = f" and {backwards}" if backwards else ""
            found += [weight(bias, (width,), f"bias{also}") for bias in ("bias_ih", "bias_hh")]
            if projected:
                found.append(weight("weight_hr", ("hidden_size", "proj_size"), f"proj_size{also}"))
    return tuple(found)


def _network(name: str, gates: str, returns: str, note: str, more: str, samples: tuple[Sample, ...]) -> Layer:
    """more: the one argument that the others do not have, with its default."""
    argument, _, default = more.partition("=")
    first = f"{more}, " if name == "RNN" else ""  # torch's order
    last = f", {more}" if name == "LSTM" else ""
    projected = name == "LSTM"
    extra = f", {argument}={{{argument}?{default}}}" if more else ""
    return Layer(
        torch=f"torch.nn.{name}",
        signature=f"input_size, hidden_size, num_layers=1, {first}bias=True, batch_first=False, dropout=0.0, "
        f"bidirectional=False{last}, device=None, dtype=None",
        template=f"{name}({{hidden_size}}, num_layers={{num_layers?1}}, bias={{bias?True}}, "
        f"batch_first={{batch_first?False}}, dropout={{dropout?0.0}}, bidirectional={{bidirectional?False}}{extra}, "
        "training={dropout:training?False})",
        note=note,
        layout=Layout.FIRST,
        weights=_weights(gates, "proj_size or hidden_size" if projected else "hidden_size", projected),
        snippets=(name,),
        call="input, hx=None",
        returns=returns,
        trains=True,
        draws=True,
        trains_if="dropout",
        samples=samples,
    )


def _cell(name: str, gates: str, returns: str, more: str, samples: tuple[Sample, ...]) -> Layer:
    width = f"{gates}hidden_size"
    argument, _, default = more.partition("=")
    return Layer(
        torch=f"torch.nn.{name}",
        signature=f"input_size, hidden_size, bias=True{', ' if more else ''}{more}, device=None, dtype=None",
        template=f"{name}({{hidden_size}}, bias={{bias?True}}"
        + (f", {argument}={{{argument}?{default}}})" if more else ")"),
        note="One step; the state is zero where none is given.",
        layout=Layout.FIRST,
        weights=(
            Weight("weight_ih", "weight_ih", ("input_size", width), _TRANSPOSED, initializer=f"{_INITIAL}weight_ih"),
            Weight("weight_hh", "weight_hh", ("hidden_size", width), _TRANSPOSED, initializer=f"{_INITIAL}weight_hh"),
            Weight("bias_ih", "bias_ih", (width,), when="bias", initializer=f"{_INITIAL}bias_ih"),
            Weight("bias_hh", "bias_hh", (width,), when="bias", initializer=f"{_INITIAL}bias_hh"),
        ),
        snippets=(name,),
        call="input, hx=None",
        returns=returns,
        samples=samples,
    )


_STACKED = "Weights stay stacked by gate, transposed; torch's two biases both learn."

LAYERS = (
    _network(
        "LSTM",
        "4 * ",
        "(tensor, (tensor, tensor))",
        f"{_STACKED} Flax's cells have one bias.",
        "proj_size=0",
        (
            Sample("nn.LSTM(3, 4)", (5, 2, 3)),
            Sample("nn.LSTM(3, 4, 2, bias=False, bidirectional=True)", (5, 2, 3)),
            Sample(
                "nn.LSTM(3, 4, num_layers=2, batch_first=True, proj_size=2)",
                (2, 5, 3),
                call="x, (h, c)",
                inputs="h: f32[2, 2, 2]; c: f32[2, 2, 4]",
            ),
            Sample("nn.LSTM(3, 4, batch_first=True)", (5, 3), call="x, hx=None"),
            Sample("nn.LSTM(3, 4, 2, dropout=1.0)", (5, 2, 3)),
        ),
    ),
    _network(
        "GRU",
        "3 * ",
        "(tensor, tensor)",
        f"{_STACKED} That of the new state is inside the product with the reset gate.",
        "",
        (
            Sample("nn.GRU(3, 4)", (5, 2, 3)),
            Sample("nn.GRU(3, 4, 2, batch_first=True, bidirectional=True)", (2, 5, 3)),
            Sample("nn.GRU(3, 4, bias=False)", (5, 2, 3), call="x, h", inputs="h: f32[1, 2, 4]"),
        ),
    ),
    _network(
        "RNN",
        "",
        "(tensor, tensor)",
        _STACKED,
        "nonlinearity='tanh'",
        (
            Sample("nn.RNN(3, 4)", (5, 2, 3)),
            Sample("nn.RNN(3, 4, 2, nonlinearity='relu', bidirectional=True)", (5, 2, 3)),
            Sample("nn.RNN(3, 4, 1, 'relu', False, True)", (2, 5, 3), call="x, h", inputs="h: f32[1, 2, 4]"),
        ),
    ),
    _cell(
        "LSTMCell",
        "4 * ",
        "(tensor, tensor)",
        "",
        (
            Sample("nn.LSTMCell(3, 4)", (2, 3)),
            Sample("nn.LSTMCell(3, 4, bias=False)", (2, 3), call="x, (h, c)", inputs="h: f32[2, 4]; c: f32[2, 4]"),
        ),
    ),
    _cell(
        "GRUCell",
        "3 * ",
        "tensor",
        "",
        (
            Sample("nn.GRUCell(3, 4)", (2, 3)),
            Sample("nn.GRUCell(3, 4, False)", (2, 3), call="x, h", inputs="h: f32[2, 4]"),
        ),
    ),
    _cell(
        "RNNCell",
        "",
        "tensor",
        "nonlinearity='tanh'",
        (
            Sample("nn.RNNCell(3, 4)", (2, 3)),
            Sample("nn.RNNCell(3, 4, bias=False, nonlinearity='relu')", (2, 3), call="x, h", inputs="h: f32[2, 4]"),
        ),
    ),
)
