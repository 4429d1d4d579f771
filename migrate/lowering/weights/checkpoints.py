"""Saving and loading."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.kept import kept
from migrate.known.kinds import UNKNOWN, Host, Items, Kind, Model, Place, Plain, Tensor
from migrate.known.states import BATCH_STATS, PARAMS, State
from migrate.known.weight_kinds import CHECKPOINT, StateDict, Weight
from migrate.lowering.expressions.copied_snippets import with_snippets
from migrate.lowering.expressions.elements import DICT, WeightsByName, kinds_in
from migrate.lowering.weights.checkpoint_files import SNIPPETS, restored, restored_into, saved
from migrate.lowering.weights.saved_entries import note_saved_alone
from migrate.lowering.weights.state_dicts import StateDicts
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every
from migrate.weights import weights_of


class Checkpoints(StateDicts):
    """torch.save, torch.load and load_state_dict."""

    def torch_save(self, node: cst.Call) -> Value:
        """The same file, holding what Flax makes of the state."""
        if any(arg.star for arg in node.args) or len(node.args) < 2:
            raise Unsupported("MIG302", f"{nodes.code(node)}: its arguments cannot be followed")
        what, where = self.expr(node.args[0].value), self.expr(node.args[1].value)
        if isinstance(what.kind, Model):
            self.script.whole_files[nodes.code(node.args[1].value)] = what.kind
        for part in (what.kind, *kinds_in(what.kind)):
            self.script.saved_under |= (
                {"torch"} if _by_name(part) else {"flax"} if isinstance(part, StateDict) else set()
            )
        note_saved_alone(self, node.args[0].value)
        return Value(with_snippets(self, saved(self.script, self.content(what), where), SNIPPETS), UNKNOWN)

    def content(self, value: Value) -> Expr:
        """What a file is to hold: of a whole model its weights, since the module is made by the script."""
        kind = value.kind
        if not isinstance(kind, Model) or kind.place is None:
            return value.node
        modes = self.script.saved_whole.setdefault(kind.cls, set())
        modes.add(self.env.modes.get(kind.place, "train"))
        return self.saved(kind)

    def read_from(self, node: Expr) -> Value:
        """The file that `torch.load` reads: its path, or an open one."""
        where = self.expr(node)
        self.use(node, where)
        return where

    def loaded_model(self, target: Expr, value: Expr) -> list[Statement] | None:
        """`model = torch.load(path)`, where the script saves such models as a whole: the weights of the model that the
        name has stood for until now. A model comes back in the mode in which it was saved."""
        kind = self.kind_of(target)
        loads = isinstance(value, cst.Call) and self.torch_name(value.func) == "torch.load"
        if (
            isinstance(value, cst.Call)
            and loads
            and isinstance(target, cst.Name)
            and target.value not in self.env.kinds
        ):
            return self.loaded_anew(target, value)
        if not loads or not isinstance(kind, Model) or kind.place is None or kind.cls not in self.script.saved_whole:
            return None
        made = self.load_model(nodes.call(cst.Attribute(target, cst.Name("load_state_dict")), value), kind)
        modes = self.script.saved_whole[kind.cls]
        self.set_mode(kind.place, modes.copy().pop() if len(modes) == 1 else "mixed")
        return made

    def loaded_anew(self, target: cst.Name, value: cst.Call) -> list[Statement] | None:
        """The same with a name of its own, of a file that the script saves a model to, as it is written there. A copy
        of that model takes the weights, or of the one model of its class that is known here."""
        saved = self.script.whole_files.get(nodes.code(value.args[0].value)) if value.args else None
        here = {name: kind for name, kind in self.env.kinds.items() if isinstance(kind, Model)}
        models = [name for name, kind in here.items() if kind == saved]
        models = models or [name for name, kind in here.items() if saved is not None and kind.cls == saved.cls]
        if len(models) != 1:
            return None
        copied = nodes.statement(f"{target.value} = copy.deepcopy({models[0]})")
        return [*self.statement(copied), *(self.loaded_model(target, value) or [])]

    def torch_load(self, node: cst.Call) -> Value:
        """What was saved as nested dicts of arrays; `load_state_dict` puts it into the structure of the model.

        A project that neither saves nor takes weights reads data of torch's, which stay torch.
        """
        if not self.script.checkpoints:
            args = self.torch_args(
                [arg for arg in node.args if nodes.dotted(arg.keyword or arg.value) != "map_location"]
            )
            return Value(node.with_changes(func=kept(node.func), args=args), Host("data"))
        read = restored(self.script, self.read_from(node.args[0].value))
        return Value(with_snippets(self, read, SNIPPETS), CHECKPOINT)

    def torch_hub_load_state_dict_from_url(self, node: cst.Call) -> Value:
        """Published weights are torch's files, which torch reads; on the CPU, where arrays can be made of them."""
        args: list[cst.Arg] = []
        for arg in node.args:
            placed = arg.keyword is not None and arg.keyword.value == "map_location"
            args += [arg.with_changes(value=nodes.expression('"cpu"'))] if placed else self.torch_args([arg])
        return Value(node.with_changes(func=kept(node.func), args=args), Host("data"))

    torch_utils_model_zoo_load_url = torch_hub_load_state_dict_from_url

    def torch_pretrained_of_transformers(self, node: cst.Call) -> Value:
        """The weights of a model of transformers, which the library loads into its own."""
        (cls, *args) = node.args
        made = nodes.expression(f"transformers.{nodes.literal(cls.value)}.from_pretrained")
        loaded = cst.Call(made, self.torch_args(args))
        return Value(nodes.expression("{model}.state_dict()", model=loaded), Host("data"))

    def live_source(self, source: Expr, kind: Model) -> Place | None:
        """The model with the same weights whose `state_dict()` an expression is."""
        if not isinstance(source, cst.Call) or not isinstance(source.func, cst.Attribute):
            return None
        if source.func.attr.value != "state_dict" or source.args:
            return None
        other = self.kind_of(source.func.value)
        if not isinstance(other, Model):
            return None
        own, others = ({leaf.torch: leaf.flax for leaf in weights_of(self.script, one.cls)} for one in (kind, other))
        if own != others and own.keys() == others.keys():
            differ = f"{nodes.code(source)}: both have weights of the same names in torch, but not in the output"
            raise Unsupported("MIG402", f"{differ}: give both one class")
        return other.place if other.cls == kind.cls or own == others else None

    def weights_of_other(self, own: Place, other: Place, kind: Model) -> list[Statement]:
        """`target.load_state_dict(model.state_dict())`: copies, since steps give the memory of their weights away. They
        are all the weights that a model has which has none yet."""
        made: list[Statement] = []
        if any(entry[:2] == ("model", own) for entry in self.pending):
            if self.conditions or self.loops:
                self.read(State(PARAMS, own))
            self.pending = [entry for entry in self.pending if entry[:2] != ("model", own)]
            self.ready.add(own)
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
        some = self.load_some(node, kind) if len(node.args) > 1 else None
        if some is not None:
            return some
        by_name = self.expr(source) if isinstance(source, cst.Name | cst.Attribute | cst.DictComp) else None
        if by_name is not None and WeightsByName in (type(by_name.kind), type(self.kind_of(source))):
            return self.put_back(kind, by_name.node)
        made = [line for what, place, line in self.pending if (what, place) == ("model", kind.place)]
        loading = bool(made)
        here = any(line is one for line in made for one in self.blocks[-1].statements)
        elsewhere = bool(self.conditions) and not here
        given = self.facts is not None and nodes.dotted(source) in self.facts.parameter_names
        maker = kind.place in self.script.handed | self.script.perhaps_loaded
        if kind.place not in self.script.examples and (loading or maker) and (elsewhere or given):
            return self.loaded_by_maker(node, kind, elsewhere)
        if loading and elsewhere:  # what is loaded here may not be
            self.read(State(PARAMS, kind.place))
            loading = False
        else:
            self.pending = [entry for entry in self.pending if entry[:2] != ("model", kind.place)]
            self.ready |= {kind.place}
        value = self.expr(source)
        if self.is_of_torch(source, value.kind):
            return self.taken(kind, self.from_state_dict(kind, node, value.node))
        what = self.saved(kind)
        if loading:  # what is read needs no weights to take the place of
            return self.taken(kind, value.node)
        if isinstance(source, cst.Call) and self.torch_name(source.func) == "torch.load":
            read = restored_into(self.script, what, self.read_from(source.args[0].value))
            return self.taken(kind, with_snippets(self, read, SNIPPETS))
        return self.taken(kind, nodes.call("serialization.from_state_dict", what, value.node))

    def told_of_loading(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """`missing, unexpected = model.load_state_dict(weights, strict=False)`; None for other assignments."""
        call = small.value
        if not isinstance(call, cst.Call) or not call.args or len(small.targets) != 1:
            return None
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "load_state_dict":
            return None
        kind, source = self.kind_of(func.value), call.args[0].value
        if not isinstance(kind, Model) or kind.place is None:
            return None
        held = self.expr(source) if isinstance(source, cst.Name) else Value(source, UNKNOWN)
        loaded = self.load_model(call, kind)
        loose = len(call.args) > 1 and not nodes.is_literal(call.args[1].value, True)
        if loose and isinstance(held.kind, Items) and held.kind.type == DICT:
            self.unit.use_snippet("incompatible_keys")
            made = nodes.call("incompatible_keys", self.saved(kind), held.node, *self.where_weights_are(kind))
        else:  # what has been taken is the same structure
            self.unit.use_snippet("IncompatibleKeys")
            made = nodes.expression("IncompatibleKeys([], [])")
        names = Items(None, Plain("str"), "list")
        self.bind(small.targets[0].target, Items((names, names), type="tuple"))
        self.define_target(small.targets[0].target, None)
        return [*suites.with_comments(loaded, line), cst.SimpleStatementLine([small.with_changes(value=made)])]

    def loaded_by_maker(self, node: cst.Call, kind: Model, perhaps: bool) -> list[Statement]:
        """A function that makes a model for its callers and reads weights for it: it returns them, too. `perhaps`: it
        returns None for them where it has read none, and its callers make them."""
        place = kind.place
        assert place is not None
        part = self.facts is not None and self.facts.builds  # of a module that makes its weights with its own
        returned = self.context == "function" and place.scope == self.scope and not self.passed_in(place) and not part
        known = place in self.script.handed | self.script.given_up
        if not returned or not known or not self.ends_here():
            raise Unsupported("MIG402", f"{place.name} takes weights where it has none yet: load them where it is used")
        given = node.args[0].value
        source = self.expr(given)
        saved = self.is_saved(given)
        called = self.facts is not None and bool(self.facts.calls) and not isinstance(given, cst.Call)
        if called and not saved and source.kind == UNKNOWN:
            raise Unsupported("MIG402", f"{nodes.code(given)} may hold weights of this project's or of torch's")
        weights = source.node if saved else self.from_state_dict(kind, node, source.node)
        if perhaps:
            self.script.perhaps_loaded.add(place)
        self.pending = [entry for entry in self.pending if entry[:2] != ("model", place)]
        if not perhaps:
            self.ready.add(place)
        return self.taken(kind, weights)

    def is_saved(self, node: Expr) -> bool:
        """Whether an expression is what a file of this project's holds, or a part of that."""
        while isinstance(node, cst.Subscript):
            node = node.value
        loads = isinstance(node, cst.Call) and self.torch_name(node.func) == "torch.load"
        return loads or self.kind_of(node) == CHECKPOINT or isinstance(self.kind_of(node), StateDict)

    def filled_by_name(self, name: str) -> bool:
        """Whether a dict that starts empty gets weights under torch's names: `new[name[7:]] = v`."""
        for one in every(cst.Module(self.blocks[0].statements), cst.Assign):
            target = one.targets[0].target
            if isinstance(target, cst.Subscript) and nodes.dotted(target.value) == name:
                return isinstance(self.kind_of(one.value), Weight | Tensor)
        return False

    def is_of_torch(self, node: Expr, kind: Kind) -> bool:
        """Whether a value is, or holds, what torch has read, or is a dict of arrays: weights under torch's names."""
        written = self.env.definitions.get(node.value, node) if isinstance(node, cst.Name) else node
        if isinstance(node, cst.Name) and nodes.code(written) in ("{}", "dict()", "OrderedDict()"):
            return self.filled_by_name(node.value)
        named = isinstance(kind, Items) and kind.type == DICT
        if isinstance(written, cst.DictComp):  # `{name.removeprefix("module."): value for name, value in ...}`
            return isinstance(self.expr(written.for_in.iter).kind, Host) or named
        return named or any(isinstance(part, Host) for part in (kind, *kinds_in(kind)))


def _by_name(kind: Kind) -> bool:
    """Whether a value is a dict of weights under torch's names."""
    return isinstance(kind, Items) and kind.type == DICT and isinstance(kind.joined(), Weight | Tensor)
