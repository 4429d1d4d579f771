"""Saving and loading."""

from __future__ import annotations

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Unsupported
from migrate.kept import kept
from migrate.kinds import (
    UNKNOWN,
    Host,
    Model,
    Place,
    Plain,
)
from migrate.lowering.elements import WeightsByName
from migrate.lowering.state_dicts import StateDicts
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.script import (
    BATCH_STATS,
    PARAMS,
    State,
)


class Checkpoints(StateDicts):
    """torch.save, torch.load and load_state_dict."""

    def torch_save(self, node: cst.Call) -> Value:
        """The same file, holding Flax's msgpack."""
        what, where = self.expr(node.args[0].value), self.node(node.args[1].value)
        made = nodes.expression(
            "Path({where}).write_bytes(serialization.to_bytes({what}))", where=where, what=what.node
        )
        return Value(made, UNKNOWN)

    def torch_load(self, node: cst.Call) -> Value:
        """What was saved as nested dicts of arrays; `load_state_dict` puts it into the structure of the model.

        A project that neither saves nor takes weights reads data of torch's, which stay torch.
        """
        if not self.script.checkpoints:
            args = self.torch_args(
                [arg for arg in node.args if nodes.dotted(arg.keyword or arg.value) != "map_location"]
            )
            return Value(node.with_changes(func=kept(node.func), args=args), Host("data"))
        path = self.node(node.args[0].value)
        made = nodes.expression("serialization.msgpack_restore(Path({path}).read_bytes())", path=path)
        return Value(made, Plain("checkpoint"))

    def live_source(self, source: Expr, kind: Model) -> Place | None:
        """The model of the same class whose `state_dict()` an expression is."""
        if not isinstance(source, cst.Call) or not isinstance(source.func, cst.Attribute):
            return None
        if source.func.attr.value != "state_dict" or source.args:
            return None
        other = self.kind_of(source.func.value)
        return other.place if isinstance(other, Model) and other.cls == kind.cls else None

    def weights_of_other(self, own: Place, other: Place, kind: Model) -> list[Statement]:
        """`target.load_state_dict(model.state_dict())`: copies, since steps give the memory of their weights away."""
        made: list[Statement] = []
        for what in (PARAMS, BATCH_STATS) if self.stats_of(kind) else (PARAMS,):
            copied = nodes.call("jax.tree.map", nodes.expression("jnp.copy"), self.read(State(what, other)))
            made.append(nodes.statement("{own} = {copied}", own=self.write(State(what, own)), copied=copied))
        return made

    def load_model(self, node: cst.Call, kind: Model) -> list[Statement]:
        """`model.load_state_dict(x)`: the file or the dict is read back into the same structure."""
        assert kind.place is not None
        source = node.args[0].value
        other = self.live_source(source, kind)
        if other is not None:
            return self.weights_of_other(kind.place, other, kind)
        if isinstance(self.kind_of(source), WeightsByName):
            return self.put_back(kind.place, source)
        made = [line for what, place, line in self.pending if (what, place) == ("model", kind.place)]
        loading = bool(made)
        here = any(line is one for line in made for one in self.blocks[-1].statements)
        elsewhere = bool(self.conditions) and not here
        given = self.facts is not None and nodes.dotted(source) in self.facts.parameter_names
        unknown = kind.place not in self.script.examples and (loading or kind.place in self.script.handed)
        if unknown and (elsewhere or given):
            raise Unsupported(
                "MIG402", f"{kind.place.name} takes weights where it has none yet: load them where it is used"
            )
        self.pending = [entry for entry in self.pending if entry[:2] != ("model", kind.place)]
        self.ready |= {kind.place}
        target = self.write(State(PARAMS, kind.place))
        what = self.saved(kind)
        names = [target]
        if self.stats_of(kind):
            names.append(self.write(State(BATCH_STATS, kind.place)))
        if loading:  # what is read needs no weights to take the place of
            loaded = self.node(source)
        elif isinstance(source, cst.Call) and self.torch_name(source.func) == "torch.load":
            path = self.node(source.args[0].value)
            loaded = nodes.expression(
                "serialization.from_bytes({what}, Path({path}).read_bytes())", what=what, path=path
            )
        else:
            loaded = nodes.expression(
                "serialization.from_state_dict({what}, {source})", what=what, source=self.node(source)
            )
        if len(names) == 1:
            return [nodes.statement("{target} = {loaded}", target=target, loaded=loaded)]
        return [
            nodes.statement("variables = {loaded}", loaded=loaded),
            nodes.statement(
                '{params}, {stats} = variables["params"], variables["batch_stats"]', params=names[0], stats=names[1]
            ),
        ]
