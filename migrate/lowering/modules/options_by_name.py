"""Arguments that a constructor collects once and gives to several layers: `dd = {"device": device, "dtype": dtype}`,
`nn.Linear(4, 8, **dd)`. Each call is read with the arguments written out, and the dict goes."""

from __future__ import annotations

import re

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.layers.layer import Layer
from migrate.lowering.expressions.arguments import Arguments
from migrate.lowering.modules.settings_given import default_of, settings
from migrate.rules.rule import Call
from migrate.syntax import nodes, usage
from migrate.syntax.walking import every

_PLACING = ("device", "dtype")  # where and as what torch makes the weights of a layer


_WITHOUT_EFFECT = {"inplace"}  # on what a layer computes


class OptionsByName(Arguments):
    """Dicts of arguments, and arguments that say nothing."""

    def options_written_out(self, node: cst.Call) -> cst.Call:
        """A call in a constructor with the arguments of such a dict as arguments of its own."""
        if self.context != "setup" or not any(arg.star == "**" for arg in node.args):
            return node
        args: list[cst.Arg] = []
        for arg in node.args:
            options = self.collected_options(nodes.dotted(arg.value) or "") if arg.star == "**" else None
            args += [arg] if options is None else nodes.arguments([], options)
        return node.with_changes(args=args)

    def collects_options(self, small: cst.Assign) -> bool:
        """Whether an assignment makes a dict that every call has written out."""
        if self.context != "setup" or not isinstance(small.value, cst.Dict | cst.IfExp):
            return False
        return self.collected_options(nodes.dotted(small.targets[0].target) or "") is not None

    def collected_options(self, name: str) -> dict[str, cst.BaseExpression] | None:
        """The arguments in a dict of the method at hand that nothing but calls with `**name` reads, where each of them
        is a constant or a name that keeps its value; None for other names."""
        facts = self.script.classes.get(self.cls)
        method = facts.method(self.scope.rpartition(".")[2]) if facts is not None else None
        if method is None or not name:
            return None
        stored, calls = usage.stores(method.body), usage.calls(method.body)
        given = [arg for call in calls for arg in call.args if arg.star == "**" and nodes.dotted(arg.value) == name]
        if stored.count(name) != 1 or usage.loads(method.body).count(name) != len(given):
            return None
        assigned = [each for each in every(method, cst.Assign) if nodes.dotted(each.targets[0].target) == name]
        found = _without_choice(assigned[0].value) if len(assigned) == 1 else None
        if not isinstance(found, cst.Dict):
            return None
        options: dict[str, cst.BaseExpression] = {}
        for element in found.elements:
            key = nodes.literal(element.key) if isinstance(element, cst.DictElement) else ...
            if not isinstance(key, str) or set(usage.loads(element.value)) & set(stored):
                return None
            if nodes.dotted(element.value) is None and nodes.literal(element.value) is ...:
                return None
            options[key] = element.value
        return options

    def without_defaults(self, node: cst.Call) -> cst.Call:
        """The call of a torch layer without the device and type of its weights, where the program never sets them."""
        return nodes.with_some(node, [arg for arg in node.args if not self._says_nothing(arg)])

    def _says_nothing(self, arg: cst.Arg) -> bool:
        return arg.keyword is not None and arg.keyword.value in _PLACING and self.is_always_none(arg.value)

    def refuse_perhaps_none(self, layer: Layer, call: Call) -> None:
        """Declines a layer that has another form where an argument is None, which a field may be."""
        for name in re.findall(r"(\w+) is None", " ".join(variant.when for variant in layer.variants)):
            value = call.bound.get(name)
            field = (nodes.dotted(value.node) or "").removeprefix("self.") if value is not None else ""
            facts = self.script.classes.get(self.cls) if self.context == "setup" else None
            if facts is None or field not in facts.fields:
                continue
            if None in settings(self.script, self.cls, field) or nodes.is_literal(default_of(facts, field), None):
                raise Unsupported("MIG203", f"{layer.torch}({name}={field}), which may be None: it must be written out")

    def is_always_none(self, node: cst.BaseExpression) -> bool:
        """Whether an argument of the constructor at hand is None in every module that the program makes."""
        facts, field = self.script.classes.get(self.cls), nodes.dotted(node) or ""
        if facts is None or self.context != "setup" or field not in facts.fields:
            return False
        open_yet = not facts.given and self.script.still_open()
        return open_yet or settings(self.script, self.cls, field) == {None}


def _without_choice(made: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """No arguments for those that are given or not, `{} if inplace is None else {"inplace": inplace}`, where that makes
    no difference; anything else as it is."""
    if not isinstance(made, cst.IfExp):
        return made
    filled = [side for side in (made.body, made.orelse) if isinstance(side, cst.Dict) and side.elements]
    empty = [side for side in (made.body, made.orelse) if isinstance(side, cst.Dict) and not side.elements]
    keys = {nodes.literal(e.key) for side in filled for e in side.elements if isinstance(e, cst.DictElement)}
    known = any(nodes.is_literal(e.value, True) for side in filled for e in side.elements)  # it changes its input
    return empty[0] if len(filled) == len(empty) == 1 and keys <= _WITHOUT_EFFECT and not known else made
