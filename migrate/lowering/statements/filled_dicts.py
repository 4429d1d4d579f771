"""Dicts that are filled entry by entry, `batch = {}; batch["x"] = x`: they stand for what a display of them would."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Host, Items, Kind, Plain, Tensor, is_batch
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.expressions.elements import DICT, dict_kind
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr


class FilledDicts(Binding):
    """What is known of dicts while they are filled."""

    def put_in(self, target: cst.Subscript, value: Expr, kind: Kind) -> None:
        """`batch["x"] = x`: one entry more of a dict that is written out so far."""
        name, key = nodes.dotted(target.value), _key(target)
        written = self.env.definitions.get(name) if name is not None else None
        if name is None or not isinstance(target.value, cst.Name) or not isinstance(written, cst.Dict):
            return
        before = self.kind_of_name(name)
        arrays = isinstance(before, Items) and before.type == DICT and isinstance(before.joined(), Tensor)
        if before == Plain("dict") and not written.elements:
            self.bind(target.value, dict_kind([kind]) if isinstance(kind, Tensor) or is_batch(kind) else before)
        elif arrays and isinstance(before, Items):
            self.bind(target.value, dict_kind([before.joined(), kind]))
        elif before == Host("batch"):
            self.bind(target.value, dict_kind([Host("tensor"), kind]))
        if key is None or not isinstance(nodes.literal(key), str | int):
            self.env.definitions.pop(name)
            return
        others = [one for one in written.elements if not _is_under(one, key)]
        self.define([target.value], written.with_changes(elements=[*others, cst.DictElement(key, value)]))

    def filled_in_turns(self, loop: cst.For) -> tuple[cst.Name, cst.DictComp] | None:
        """`for k, v in data.items(): batch[k] = v[i:j]` of a dict that is empty before: its name, and the comprehension
        that it is alike; None of other loops."""
        body = suites.suite_of(loop.body.body)
        small = suites.alone(body[0]) if len(body) == 1 and loop.orelse is None else None
        if not isinstance(small, cst.Assign) or len(small.targets) != 1:
            return None
        target = small.targets[0].target
        if not isinstance(target, cst.Subscript) or not isinstance(target.value, cst.Name):
            return None
        name, key = target.value, _key(target)
        written = self.env.definitions.get(name.value)
        empty = isinstance(written, cst.Dict) and not written.elements
        turns = usage.target_names(loop.target)
        if not empty or key is None or nodes.dotted(key) not in turns or name.value in usage.loads(small.value):
            return None
        return name, cst.DictComp(key, small.value, for_in=cst.CompFor(loop.target, loop.iter))

    def fill_in_turns(self, name: cst.Name, made: cst.DictComp) -> None:
        """What is known of a dict behind such a loop."""
        self.bind(name, self.asked(made).kind)
        self.define([name], made)


def _key(target: cst.Subscript) -> Expr | None:
    index = target.slice[0].slice if len(target.slice) == 1 else None
    return index.value if isinstance(index, cst.Index) else None


def _is_under(element: cst.BaseDictElement, key: Expr) -> bool:
    return isinstance(element, cst.DictElement) and nodes.literal(element.key) == nodes.literal(key)
