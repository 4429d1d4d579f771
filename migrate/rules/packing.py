"""Packed sequences: in torch the elements of all sequences, time step by time step; here a pair of the padded array,
time first, and the lengths, whose shapes jit knows. Recurrent layers take it and give it."""

from migrate.known.kinds import Items, Packed, Tensor
from migrate.rules.rule import Call, Value, rule
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr


@rule("torch.nn.utils.rnn.pack_padded_sequence", signature="input, lengths, batch_first=False, enforce_sorted=True")
def pack_padded_sequence(call: Call) -> Value:
    """Sequences need not be sorted: torch sorts them for speed, and undoes that afterwards.

    >>> nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_padded_sequence(x, [2, 3, 1], enforce_sorted=False), total_length=4)[0]  # x: f32[4, 3, 2]
    pad_packed_sequence((x, jnp.asarray([2, 3, 1])), total_length=4)[0]
    """  # noqa: E501
    padded: Expr = call.node("input")
    if call.has("batch_first"):
        known = nodes.is_literal(call.node("batch_first"), True)
        padded = call.make("{input}.swapaxes(0, 1)" if known else "{input}.swapaxes(0, int({batch_first}))")
    lengths = call.node("lengths")
    if not isinstance(call.kind("lengths"), Tensor):
        lengths = nodes.call("jnp.asarray", lengths)
    return Value(nodes.tuple_of([padded, lengths]), Packed())


@rule(
    "torch.nn.utils.rnn.pad_packed_sequence",
    signature="sequence, batch_first=False, padding_value=0.0, total_length=None",
)
def pad_packed_sequence(call: Call) -> Value:
    """Without `total_length` torch ends at the longest sequence, which jit does not know; here where the packed array
    ended.

    >>> nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_padded_sequence(x, [3, 2], True), True, 7.0, 4)[0]  # x: f32[2, 3, 2]
    pad_packed_sequence((x.swapaxes(0, 1), jnp.asarray([3, 2])), batch_first=True, padding_value=7.0, total_length=4)[0]
    """  # noqa: E501
    call.snippet("pad_packed_sequence")
    more = call.given("batch_first", "padding_value", "total_length")
    made = nodes.call("pad_packed_sequence", call.node("sequence"), **more)
    return Value(made, Items((Tensor(), Tensor("int", 1)), type="tuple"))
