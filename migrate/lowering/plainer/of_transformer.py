"""Classes that inherit from `nn.Transformer` for its encoder and its decoder, with a forward pass of their own: the
input is taken as if they were modules that make these themselves, as torch's constructor does."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_PARAMETERS = (
    *("d_model", "nhead", "num_encoder_layers", "num_decoder_layers", "dim_feedforward", "dropout", "activation"),
    *("custom_encoder", "custom_decoder", "layer_norm_eps", "batch_first", "norm_first", "bias"),
)
_SIZES = {"d_model": "512", "nhead": "8", "num_encoder_layers": "6", "num_decoder_layers": "6"}  # that have defaults
_OF_LAYERS = ("dim_feedforward", "dropout", "activation", "layer_norm_eps", "batch_first", "norm_first", "bias")
_OF_NORMS = {"layer_norm_eps": "eps", "bias": "bias"}
_KEPT = frozenset({"d_model", "nhead", "batch_first"})  # what torch's constructor keeps besides
_ITS_OWN = frozenset({"generate_square_subsequent_mask", "_reset_parameters"})


def with_parts_of_transformers(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such classes as modules."""
    return [one.edited(_edits(one.source.module)) for one in inputs]


def _edits(module: cst.Module) -> Edits:
    edits, imported = Edits(), imported_names(module)
    for node in every(module, cst.ClassDef):
        base = node.bases[0].value if len(node.bases) == 1 else None
        if isinstance(base, cst.Attribute) and full_name(base, imported) == "torch.nn.Transformer":
            _make_module(edits, node, base)
    return edits


def _make_module(edits: Edits, node: cst.ClassDef, base: cst.Attribute) -> None:
    """Notes what makes a module of a class, where its constructor says what torch's is given."""
    methods = suites.methods_of(node)
    init = methods.get("__init__")
    lines = [one for one in every(node, cst.SimpleStatementLine) if suites.calls_base(one) is not None]
    bases = [call for call in usage.calls(node) if nodes.dotted(call.func) == "super"]
    asked = {name for one in methods.values() for name in usage.attributes_of_self(one.body)}
    if init is None or "forward" not in methods or len(lines) != 1 or len(bases) != 1:
        return
    (line,), call = lines, suites.calls_base(lines[0])
    given = _given(call) if call is not None and line in suites.suite_of(init.body.body) else None
    own = set(usage.attributes_set(init.body))
    if given is None or asked & (_KEPT - own | _ITS_OWN - methods.keys()):
        return
    made = [nodes.statement("super().__init__()")]
    for part in ("encoder", "decoder"):
        if part not in own:
            made += _part(part, base.value, given)
    edits.instead[line] = suites.with_comments(list[Statement](made), line)
    edits.parts[base] = base.with_changes(attr=nodes.name("Module"))


def _given(call: cst.Call) -> dict[str, Expr] | None:
    """What torch's constructor is given, by the names of its parameters; None where that is not told, or no number."""
    placed = [arg.value for arg in call.args if arg.keyword is None]
    given = dict(zip(_PARAMETERS, placed, strict=False))
    given |= {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    told = not any(arg.star for arg in call.args) and len(given) == len(call.args) and given.keys() <= set(_PARAMETERS)
    return given if told and not given.keys() & {"custom_encoder", "custom_decoder"} else None


def _part(part: str, nn: Expr, given: dict[str, Expr]) -> list[Statement]:
    """The statements that make the encoder or the decoder, with its initial weights."""
    stack = f"Transformer{part.title()}"
    sizes = {name: given.get(name) or nodes.expression(default) for name, default in _SIZES.items()}
    settings = {name: given[name] for name in _OF_LAYERS if name in given}
    of_norm = {_OF_NORMS[name]: value for name, value in settings.items() if name in _OF_NORMS}
    layer = nodes.call(cst.Attribute(nn, nodes.name(f"{stack}Layer")), sizes["d_model"], sizes["nhead"], **settings)
    norm = nodes.call(cst.Attribute(nn, nodes.name("LayerNorm")), sizes["d_model"], **of_norm)
    made = nodes.call(cst.Attribute(nn, nodes.name(stack)), layer, sizes[f"num_{part}_layers"], norm)
    return [
        nodes.statement(f"self.{part} = {{made}}", made=made.deep_clone()),
        *nodes.statements(
            f"for p in self.{part}.parameters():\n    if p.dim() > 1:\n        {{nn}}.init.xavier_uniform_(p)", nn=nn
        ),
    ]
