"""`apply(init_fn)`: the layers of a model take what an initialising function gives their kind."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import LayerNode
from migrate.known.facts import ClassFacts
from migrate.known.kinds import (
    Function,
)
from migrate.known.qualified import inside, spelled
from migrate.known.script import classes_in, layers_in
from migrate.layers.layer import any_copy
from migrate.layers.table import TABLE
from migrate.lowering.expressions.elements import only_option
from migrate.lowering.initial.applied_to_parts import fill_part
from migrate.lowering.initial.filled_last import counts_after, filled_by, moment_of
from migrate.lowering.initial.initializers_of_flax import completed, fills_weight, outputs_first, scales
from migrate.lowering.initial.initializing_functions import initializers_in, initializers_of
from migrate.lowering.initial.names_unasked import without_names
from migrate.lowering.initial.told_layers import ToldLayers
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr


class Initializers(ToldLayers):
    """Functions given to `apply`."""

    def applied_initializer(self, facts: ClassFacts, function: Expr, switch: str) -> None:
        """`self.apply(init)`: every layer of the tree takes the initialisers that `init` gives its kind. `switch`: the
        field that says whether it is called."""
        node, name = self.initialising(facts, function)
        self.initialize_tree(facts, node, "" if facts.method(node.name.value) is node else name, switch=switch)

    def applied_to_part(self, facts: ClassFacts, attribute: str, function: Expr, switch: str) -> None:
        """`self.head.apply(init)`: the same of a part."""
        node, name = self.initialising(facts, function)
        option = only_option(facts.seen[attribute])
        if option is None:
            raise Unsupported("MIG204", f"self.{attribute}.apply({node.name.value})")
        fill_part(self, facts, option, f"self.{attribute}", node, name, switch)

    def initialising(self, facts: ClassFacts, function: Expr) -> tuple[cst.FunctionDef, str]:
        """A function that is given to `apply`, and its name."""
        path = nodes.dotted(function) or ""
        own = facts.method(path.removeprefix("self."))
        named = self.kind_of(function)
        if path.startswith("self.") and own is not None:
            return own, inside(facts.name, own.name.value)
        if isinstance(named, Function) and named.name in self.script.functions:
            self.script.initialisers.add(named.name)
            return self.script.functions[named.name].node, named.name
        raise Unsupported("MIG204", f"apply({path})")

    def initialize_tree(
        self,
        facts: ClassFacts,
        function: cst.FunctionDef,
        qualname: str = "",
        outer_first: bool = False,
        switch: str = "",
    ) -> None:
        """Notes the initialisers for the layers of a class and of all classes inside it.

        qualname: of a function that may stand in another file, whose names are those of that file. outer_first: it
        meets a module before those inside, as `modules()` gives them, and not after them, as `apply` does. switch: the
        field of the class that says whether this is done at all.
        """
        reader, now = self.in_file_of(qualname), moment_of(self)
        for inner in self.script.classes_inside(facts):
            given_here: dict[str, dict[str, Expr]] = {}
            given_usually: dict[str, dict[str, Expr]] = {}
            layers = [layer for node in inner.children.values() for layer in layers_in(node)]
            made = {layer.torch for layer in layers}
            inside = [self.given_inside(reader, function, layer) for layer in layers]
            held = dict(zip([layer.torch for layer in layers], inside, strict=True))
            for torch, layer in TABLE.items():
                if torch not in made and not any(weight.initializer for weight in layer.weights):
                    continue
                given = usual = initializers_of(reader, function, torch) | held.get(torch, {})
                if given and switch:
                    given = {weight: _where(_asking(inner, switch), made) for weight, made in given.items()}
                    before = filled_by(self.script, inner, torch, before=now)
                    if any(nodes.code(made) != nodes.code(before.get(weight, made)) for weight, made in given.items()):
                        raise Unsupported("MIG204", f"the initial weights of every {torch} depend on `{switch}`")
                if given and switch and inner is not facts and torch in made:
                    self.hand_switch(facts, inner, switch)
                if given and torch in made:
                    self.script.found_initialising.setdefault(facts.name, set()).add(inner.name)
                    self.refuse_others(facts, inner, torch)
                if given:
                    given_here[torch] = inner.found_fillings[now, torch] = given
                    inner.initializers[torch] = filled_by(self.script, inner, torch)
                given_usually[torch] = usual
            for torch, single in self.singles(inner, function, own=inner is facts and not qualname):
                usual = given_usually.get(torch, {})
                for weight, asked in self.given_single(reader, function, torch, single, usual).items():
                    self.note_found(inner, f"{single.path}.{weight}", asked, function, switch)
                    if switch and inner is not facts:
                        self.hand_switch(facts, inner, switch)
            for path, asked in initializers_in(reader, function, inner).items():
                attribute, _, weight = path.removeprefix("self.").rpartition(".")
                node = inner.children.get(attribute.split(".")[0])
                again = [
                    layer for layer in (layers_in(node) if node else []) if weight in given_here.get(layer.torch, ())
                ]
                if outer_first and again:
                    raise Unsupported("MIG204", f"{path} of {spelled(inner.name)} is given initial values twice")
                self.note_found(inner, path, asked, function, switch)
                if switch and inner is not facts:
                    self.hand_switch(facts, inner, switch)

    def refuse_others(self, facts: ClassFacts, inner: ClassFacts, torch: str) -> None:
        """Declines initial weights of a class inside that some other class holds without giving them."""
        if inner is facts or inner.name not in self.script.initialising.get(facts.name, ()):
            return
        other = self.script.held_as_it_is(inner.name)
        if other:
            held = f"modules of {spelled(other)} have the {torch} of {spelled(inner.name)}, too, as torch makes it"
            raise Unsupported("MIG204", f"initial weights in {spelled(facts.name)}: {held}")

    @staticmethod
    def given_inside(reader: Initializers, function: cst.FunctionDef, layer: LayerNode) -> dict[str, Expr]:
        """The initialisers of the layers that one of torch's holds, such as the output of an attention."""
        known = TABLE[layer.torch].weights if layer.torch in TABLE else ()
        copied = TABLE[_COPIED[layer.torch]].weights if layer.torch in _COPIED else ()
        keywords = {weight.torch: weight.initializer for weight in known}
        keywords |= {f"layers.{{i}}.{weight.torch}": weight.initializer for weight in copied}
        found: dict[str, Expr] = {}
        for weight in layer.weights:
            *_, part, leaf = ["", *weight.torch.split(".")]
            torch = next((name for start, name in _HELD.items() if part.startswith(start)), "")
            made = initializers_of(reader, function, torch).get(leaf) if torch else None
            if made is None or nodes.code(made) == _STARTS.get((part.rstrip("0123456789"), leaf)):
                continue
            name = any_copy(weight.torch)
            if not keywords.get(name):
                raise Unsupported("MIG204", f"initial values of {weight.torch} in a {layer.torch}")
            found[name] = made
        return found

    def note_found(self, facts: ClassFacts, path: str, made: Expr, node: cst.CSTNode, switch: str = "") -> None:
        """The constructor of the layer takes the initialiser in the next round. `switch`: where a field says so."""
        if path not in facts.askable:
            raise Unsupported("MIG204", f"`{nodes.code(node)}`: the layer of this weight is not made at one place")
        now, before = moment_of(self), facts.found_asked_at.get(path)
        if before is not None and counts_after(self.script, before, now):
            if scales(facts.found_asked[path]):
                raise Unsupported("MIG204", f"`{nodes.code(node)}` fills what is scaled later, in another method")
            return
        made = outputs_first(made) if facts.askable[path] else made
        made = completed(made, facts.found_asked[path]) if path in facts.found_asked else made
        if switch:
            made = _where(_asking(facts, switch), made, facts.found_asked.get(path))
        facts.found_asked[path], facts.found_asked_at[path] = made, now

    def hand_switch(self, outer: ClassFacts, target: ClassFacts, switch: str) -> None:
        """Gives a class inside the field `switch` of an outer one, through every class on the way."""
        inside = {facts.name: facts for facts in self.script.classes_inside(outer)}
        wanted = {target.name}
        while True:
            makers = {n for n, facts in inside.items() if any(_holds(facts, name) for name in wanted)} | wanted
            if makers == wanted:
                break
            wanted = makers
        by_value = {name for name, facts in inside.items() if facts.made_by_value}
        taking = (wanted | (by_value if wanted & by_value else set())) - {outer.name}
        for name in sorted(taking):
            facts = inside[name]
            if facts.bases or self.script.is_base(name) or switch in facts.fields:
                raise Unsupported("MIG204", f"initial weights of {spelled(name)} depend on `{switch}`")
            facts.init_fields[switch] = ("bool", "False")
            for maker in inside.values():
                if _holds(maker, name) and (maker is outer or maker.name in taking):
                    maker.passed.setdefault((name, ""), {})[switch] = nodes.expression(_asking(maker, switch))

    def initialising_loop(self, node: cst.FunctionDef) -> cst.FunctionDef | None:
        """`def init(net): for m in net.modules(): ...`, which does no more than fill weights: as what it does to one
        module. None for other functions."""
        parameters = node.params.params
        loop = suites.below_docstring(node)
        if len(parameters) != 1 or len(loop) != 1 or not isinstance(loop[0], cst.For):
            return None
        plain = without_names(loop[0])
        every, target = plain.iter, plain.target
        modules = isinstance(every, cst.Call) and nodes.dotted(every.func) == f"{parameters[0].name.value}.modules"
        body = suites.suite_of(plain.body.body)
        if not modules or not isinstance(target, cst.Name) or not self.only_fills(body):
            return None
        return cst.FunctionDef(node.name, cst.Parameters([cst.Param(target)]), cst.IndentedBlock(body))

    def only_fills(self, body: Sequence[cst.CSTNode]) -> bool:
        """Whether statements fill weights, and do nothing else."""
        for statement in body:
            if isinstance(statement, cst.If):
                otherwise = statement.orelse
                sides: list[cst.CSTNode] = [otherwise] if isinstance(otherwise, cst.If) else []
                if isinstance(otherwise, cst.Else):
                    sides = list(suites.suite_of(otherwise.body.body))
                if not self.only_fills([*suites.suite_of(statement.body.body), *sides]):
                    return False
            elif not isinstance(statement, cst.SimpleStatementLine) or not all(map(self._fills, statement.body)):
                return False
        return True

    def _fills(self, small: cst.BaseSmallStatement) -> bool:
        call = small.value if isinstance(small, cst.Expr) else None
        return isinstance(small, cst.Pass) or (isinstance(call, cst.Call) and fills_weight(self, call))


# Layers that torch's own hold, by the start of their names; what they copy; and the values with which weights start.
_HELD = {
    "linear": "torch.nn.Linear",
    "out_proj": "torch.nn.Linear",
    "norm": "torch.nn.LayerNorm",
    "self_attn": "torch.nn.MultiheadAttention",
    "multihead_attn": "torch.nn.MultiheadAttention",
}
_COPIED = {
    "torch.nn.TransformerEncoder": "torch.nn.TransformerEncoderLayer",
    "torch.nn.TransformerDecoder": "torch.nn.TransformerDecoderLayer",
}
_STARTS = {
    ("norm", "weight"): "nn.initializers.ones",
    ("norm", "bias"): "nn.initializers.zeros",
    ("out_proj", "bias"): "nn.initializers.zeros",
    ("self_attn", "in_proj_bias"): "nn.initializers.zeros",
    ("multihead_attn", "in_proj_bias"): "nn.initializers.zeros",
}


def _asking(facts: ClassFacts, switch: str) -> str:
    """What a constructor writes for a field: its variable of that name where it has bound one anew."""
    return switch if switch in facts.rebinds else f"self.{switch}"


def _where(asking: str, made: Expr, otherwise: Expr | None = None) -> Expr:
    """An initialiser that counts where a field says so."""
    return nodes.expression(
        f"{{made}} if {asking} else {{otherwise}}",
        made=nodes.parenthesized(made) if isinstance(made, cst.Lambda) else made,
        otherwise=otherwise or nodes.name("None"),
    )


def _holds(facts: ClassFacts, cls: str) -> bool:
    """Whether modules of a class make ones of another one."""
    return any(cls in classes_in(node) for node in facts.children.values())
