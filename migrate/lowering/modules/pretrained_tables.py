"""Embeddings that start from a table: `nn.Embedding.from_pretrained(vectors, freeze=False)`."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Tensor
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.modules.layers import Layers, stilled
from migrate.rules.rule import Value, signature
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_PARAMETERS = signature(
    "embeddings, freeze=True, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False"
)


class PretrainedTables(Layers, Binding):
    """Constructors of such embeddings."""

    def torch_nn_Embedding_from_pretrained(self, node: cst.Call) -> Value:
        """An embedding of the size of the table, with an initialiser that gives it; frozen, its weight is `still`."""
        api = "torch.nn.Embedding.from_pretrained"
        call = self.bind_call(api, _PARAMETERS, node.args)
        for name, usual in (("max_norm", None), ("scale_grad_by_freq", False)):
            call.only(name, usual)
        freeze, table = call.literal("freeze"), call.value("embeddings")
        if not isinstance(table.kind, Tensor) or self.context != "setup":
            raise Unsupported("MIG302", f"{api}: {nodes.code(node.args[0].value)} is not known to be a tensor here")
        rows = self.named_table(table)
        size = [nodes.expression(f"{{table}}.shape[{axis}]", table=rows) for axis in (0, 1)]
        padding = call.given("padding_idx")
        made = self.construct_layer("torch.nn.Embedding", nodes.call("Embedding", *size, **({} if freeze else padding)))
        assert isinstance(made.node, cst.Call)
        given = {"embedding_init": nodes.expression("lambda *_: {table}", table=rows)}
        shape = cst.Arg(nodes.expression("{table}.shape", table=rows), star="*")
        args = [shape, *(arg for arg in made.node.args[2:] if arg.keyword is None or arg.keyword.value not in given)]
        made = replace(made, node=made.node.with_changes(args=nodes.extended(args, given)))
        return stilled(made) if freeze else made

    def named_table(self, table: Value) -> Expr:
        """The table under a name of its own, which its initialiser reads later on."""
        path = nodes.dotted(table.node)
        if path is not None:
            return table.node
        name = self.held(table.node, f"{self.making.removeprefix('self.').replace('.', '_')}_table")
        self.env.kinds[name.value] = table.kind
        return name
