"""Loops over what is written out, `for name in ("query", "key")`, that name attributes by it: turns of their own.

Flax needs the names of weights before there are any; so does the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from migrate.known.kinds import Members
from migrate.lowering.expressions.elements import display
from migrate.lowering.modules.constructors import constant
from migrate.lowering.modules.settings_given import literal_of, settings
from migrate.lowering.plainer.checked_lengths import checked_items
from migrate.lowering.plainer.returned_entries import ReturnedEntries
from migrate.syntax import names_written, nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.reckoning import reckoned
from migrate.syntax.walking import every

_MOST = 64  # turns that are written out
NAMING = ("add_module", "register_module", "register_buffer", "register_parameter")


class LoopsWrittenOut(ReturnedEntries):
    """Loops of constructors and forward passes whose turns are known."""

    def turns(self, loop: cst.For, after: Sequence[Statement], owner: str = "self") -> list[Statement] | None:
        """The statements of all turns of a loop that names attributes of the module, or parts of a container, by its
        variable; None for other loops. `after`: what follows it in its block."""
        if self.context not in ("setup", "forward") or loop.orelse is not None or loop.asynchronous is not None:
            return None
        names = usage.target_names(loop.target)
        named = _names_by(loop.body, names, owner) or (self.context == "setup" and _over_parts(loop.iter))
        if not names or not named or suites.may_leave(loop.body):
            return None
        each, before = self.known_items(loop.iter), list[Statement]()
        if each is None:
            each, before = self.returned_entries(loop.iter)
        if not each or set(names) & set(usage.stores(loop.body)) or len(each) > _MOST:
            return None
        copies: list[tuple[Statement, Statement]] = []
        for item in each:
            bound = bound_names(loop.target, item)
            if bound is None:
                return None
            for statement in suites.suite_of(loop.body.body):
                copies.append((nodes.visited(nodes.substituted(statement, bound), _Texts()), statement))
        decided = {one for one in suites.suite_of(loop.body.body) if _tests(one) & set(names)}
        made = [left for turn, one in copies for left in (self.branch_of(turn) if one in decided else [turn])]
        made = [*before, *made]
        made += self.left_bound(bound_names(loop.target, each[-1]) or {}, after)
        text = "".join(map(nodes.code, made))
        if (loop, text) not in self.unit.whole:
            for turn, original in copies:
                self.all_stand_for(turn, original)
            if made:
                made[0] = made[0].with_changes(leading_lines=[*loop.leading_lines, *suites.comments(made[0])])
                self.unit.stands_for(made[0], loop)
            self.unit.whole[loop, text] = made
        return self.unit.whole[loop, text]

    @staticmethod
    def left_bound(last: dict[str, Expr], after: Sequence[Statement]) -> list[Statement]:
        """The variables of a loop after its last turn, as far as what comes after it in its block reads them."""
        read = [name for name in last if usage.reads_first(after, name)]
        return [nodes.statement(f"{name} = {{v}}", v=last[name]) for name in read]

    def branch_of(self, statement: Statement) -> list[Statement]:
        """What a branch comes to in one turn of a loop, where that is known; itself elsewhere."""
        if not isinstance(statement, cst.If):
            return [statement]
        holds = reckoned(nodes.visited(statement.test, _Numbers(self.known_number)), {})
        if holds is ...:
            return [statement]
        if holds:
            return suites.suite_of(statement.body.body)
        if statement.orelse is None:
            return []
        if isinstance(statement.orelse, cst.If):
            return self.branch_of(statement.orelse)
        return suites.suite_of(statement.orelse.body.body)

    def all_stand_for(self, made: Statement, original: Statement) -> None:
        """Each statement in a copy stands at the place of its original."""
        for one, written in zip(_statements(made), _statements(original), strict=True):
            self.unit.stands_for(one, written)

    def entries_of(self, node: cst.DictComp | cst.ListComp) -> list[tuple[str, Expr]] | None:
        """The entries that a comprehension makes, of a dict or of pairs; None where they are told while it runs."""
        loop = node.for_in
        pair = nodes.elements(node.elt) if isinstance(node, cst.ListComp) and isinstance(node.elt, cst.Tuple) else []
        made_key, made_value = (node.key, node.value) if isinstance(node, cst.DictComp) else (*pair, None, None)[:2]
        if made_key is None or made_value is None or len(pair) > 2:
            return None
        items = None if loop.ifs or loop.inner_for_in is not None else self.known_items(loop.iter)
        found: list[tuple[str, Expr]] = []
        for item in items or ():
            bound = bound_names(loop.target, item)
            key = None if bound is None else names_written.text(nodes.substituted(made_key, bound))
            if bound is None or key is None:
                return None
            found.append((key, nodes.substituted(made_value, bound)))
        return None if items is None else found

    def known_items(self, node: Expr) -> list[Expr] | None:
        """What an iterable gives, where that is written out; None of any other."""
        if isinstance(node, cst.List | cst.Tuple):
            return None if any(isinstance(e, cst.StarredElement) for e in node.elements) else nodes.elements(node)
        if isinstance(node, cst.Dict):
            entries = written_entries(node)
            return None if entries is None else [key for key, _ in entries]
        if isinstance(node, cst.Call):
            return self.known_result(node)
        if isinstance(node, cst.ListComp):
            return self.listed_texts(node)
        insisted = self.insisted_on(node) or self.group_items(node)
        made = self.constant_of(node) if insisted is None else None
        return insisted if made is None else self.known_items(made)

    def listed_texts(self, node: cst.ListComp) -> list[Expr] | None:
        """The constants that a comprehension lists: `[f"stage{i}" for i in (2, 3)]`; None of any other."""
        loop = node.for_in
        items = None if loop.ifs or loop.inner_for_in is not None else self.known_items(loop.iter)
        bound = [bound_names(loop.target, item) for item in items or ()]
        made = [nodes.visited(nodes.substituted(node.elt, each), _Texts()) for each in bound if each is not None]
        plain = all(nodes.literal(each) is not ... for each in made)
        return made if items is not None and plain and len(made) == len(bound) else None

    def insisted_on(self, node: Expr) -> list[Expr] | None:
        """The items of what a constructor accepts with one length alone; None of any other."""
        facts = self.script.classes.get(self.cls)
        init = facts.method("__init__") if facts is not None else None
        if facts is None or facts.node is None or init is None or self.scope != f"{self.cls}.__init__":
            return None
        return checked_items(facts.node, init, set(facts.fields) - facts.rebinds, node)

    def constant_of(self, node: Expr) -> Expr | None:
        """What a name or an attribute of the class at hand always is, or a list of models and optimizers; None where
        that is not known."""
        kind = self.kind_of(node)
        if isinstance(kind, Members):
            return display(kind)
        facts, path = self.script.classes.get(self.cls), nodes.dotted(node)
        init = facts.method("__init__") if facts is not None else None
        if facts is None or facts.node is None or init is None or path is None:
            return None
        if "." not in path and self.scope != f"{self.cls}.__init__":  # a name of another method's own
            return None
        if path in set(facts.fields) - facts.rebinds:
            values = settings(self.script, self.cls, path)
            default = next((p.default for p in init.params.params if p.name.value == path), None)
            values |= set() if facts.given or default is None else {literal_of(default)}
            only = values.pop() if len(values) == 1 else ...
            return None if only is ... else nodes.expression(repr(only))
        return constant(facts.node, init, path)

    def known_result(self, node: cst.Call) -> list[Expr] | None:
        """The same of a call: `range(3)`, `enumerate(names)`, `zip(a, b)`, `sizes.items()`."""
        name, args = nodes.dotted(node.func), [arg.value for arg in node.args]
        if any(arg.star or arg.keyword for arg in node.args):
            return None
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("items", "keys", "values") and not args:
            found = node.func.value if isinstance(node.func.value, cst.Dict) else self.constant_of(node.func.value)
            entries = written_entries(found) if isinstance(found, cst.Dict) else None
            if entries is None:
                return None
            pick = {"items": lambda k, v: nodes.tuple_of([k, v]), "keys": lambda k, _: k, "values": lambda _, v: v}
            return [pick[node.func.attr.value](key, value) for key, value in entries]
        if name == "range" and args:
            numbers = [nodes.literal(self.known_number(arg)) for arg in args]
            if not all(type(number) is int for number in numbers) or 0 in numbers[2:]:
                return None
            given = range(*(int(str(number)) for number in numbers))
            return [nodes.expression(str(number)) for number in given] if len(given) <= _MOST else None
        each = [self.known_items(arg) for arg in args]
        if name == "zip" and any(items for items in each):
            each = [self.by_place(arg) if items is None else items for arg, items in zip(args, each, strict=True)]
        if name not in ("enumerate", "zip", "list", "tuple", "reversed") or None in each or not each:
            return None
        known = [items for items in each if items is not None]
        if name == "reversed" and len(args) == 1:
            return known[0][::-1]
        if name == "enumerate" and len(args) == 1:
            return [nodes.tuple_of([nodes.expression(str(i)), item]) for i, item in enumerate(known[0])]
        if name == "zip":
            return [nodes.tuple_of(list(items)) for items in zip(*known, strict=False)]
        return known[0] if name in ("list", "tuple") and len(args) == 1 else None

    def by_place(self, node: Expr) -> list[Expr] | None:
        """`losses[0]`, `losses[1]` of a list of plain values, or of lists to fill, that is written out under a name and
        stays as long as it is; None of any other."""
        if not isinstance(node, cst.Name):
            return None
        module, name = self.unit.source.module, node.value
        lines = [suites.alone(each) for block in self.blocks for each in block.statements if name in usage.stores(each)]
        small = next((each for each in lines if isinstance(each, cst.Assign)), None)
        made = small.value if small is not None and isinstance(small.targets[0].target, cst.Name) else None
        if not isinstance(made, cst.List | cst.Tuple) or not all(map(_is_plain, made.elements)):
            return None
        if usage.stores(module).count(name) > 1 or name in usage.changed_by_methods(module) or _cut(module, name):
            return None
        return [nodes.expression(f"{name}[{at}]") for at in range(len(made.elements))]

    def known_number(self, node: Expr) -> Expr:
        """`len(nets)`, a name that is bound once, to a number, and what is reckoned from those, as that number."""
        if isinstance(node, cst.BinaryOperation):
            sides = {"left": self.known_number(node.left), "right": self.known_number(node.right)}
            value = reckoned(node.with_changes(**sides), {})
            return cst.Integer(str(value)) if type(value) is int and value >= 0 else node
        if isinstance(node, cst.Call) and nodes.dotted(node.func) == "len" and len(node.args) == 1:
            items = self.known_items(node.args[0].value)
            return node if items is None else cst.Integer(str(len(items)))
        name = nodes.dotted(node)
        if name is None or not self.blocks:
            return node
        for statements in (self.blocks[0].statements, suites.suite_of(self.unit.source.module.body)):
            if name in usage.stores(statements):
                written = [one.body[0] for one in statements if isinstance(one, cst.SimpleStatementLine)]
                given = [one.value for one in written if isinstance(one, cst.Assign) and name in usage.stores(one)]
                once = usage.stores(statements).count(name) == len(given) == 1
                return given[0] if once and nodes.literal(given[0]) is not ... else node
        made = self.constant_of(node)
        return node if made is None else self.known_number(made)


def written_entries(node: cst.Dict) -> list[tuple[Expr, Expr]] | None:
    """The entries of a dict that is written out."""
    pairs = [(e.key, e.value) for e in node.elements if isinstance(e, cst.DictElement)]
    return pairs if len(pairs) == len(node.elements) else None


def _is_plain(element: cst.BaseElement) -> bool:
    """Whether an element of a display is a constant, or a list or a dict that is empty by now."""
    return isinstance(element, cst.Element) and nodes.literal(element.value) is not ...


def _cut(module: cst.Module, name: str) -> bool:
    """Whether some statement takes elements out of a list under a name, or puts others in the place of a slice."""
    targets = [each.target for each in every(module, (cst.Del, cst.AssignTarget))]
    return any(isinstance(each, cst.Subscript) and nodes.dotted(each.value) == name for each in targets)


def _tests(statement: Statement) -> set[str]:
    """The names in the test of a branch."""
    return set(usage.loads(statement.test)) if isinstance(statement, cst.If) else set()


def _over_parts(node: Expr) -> bool:
    """Whether an iterable is written out, of attributes of the module: `(self.user, self.item)`."""
    parts = nodes.elements(node) if isinstance(node, cst.Tuple | cst.List) else []
    paths = [(nodes.dotted(part) or "").split(".") for part in parts]
    return bool(parts) and all(len(path) == 2 and path[0] == "self" for path in paths)


def _names_by(body: cst.BaseSuite, names: list[str], owner: str) -> bool:
    """Whether statements name attributes or entries of `owner` by a variable, in a way that no list of modules has."""
    for call in usage.calls(body):
        method = (nodes.dotted(call.func) or "").rpartition(".")[2]
        of_self = owner == "self" and method in ("setattr", "getattr") and len(call.args) > 1
        if of_self:
            name = call.args[1].value
        elif call.args and nodes.dotted(call.func) in [f"{owner}.{naming}" for naming in NAMING]:
            name = call.args[0].value
        elif call.args and nodes.dotted(call.func) == f"{owner}.append" and isinstance(call.args[0].value, cst.Tuple):
            name = call.args[0].value.elements[0].value
        else:
            continue
        numbered = (of_self or method == "add_module") and owner == "self" and names_written.pattern(name) is not None
        if not numbered and set(usage.loads(name)) & set(names):
            return True
    targets = [target.target for target in every(body, cst.AssignTarget)]
    items = [one for one in targets if isinstance(one, cst.Subscript) and nodes.dotted(one.value) == owner]
    return bool({name for one in items for name in usage.loads(one.slice)} & set(names))


def bound_names(target: cst.CSTNode, item: Expr) -> dict[str, Expr] | None:
    """The names of a target with what each of them is in one turn."""
    if isinstance(target, cst.Name):
        return {target.value: item}
    if not isinstance(target, cst.Tuple | cst.List) or not isinstance(item, cst.Tuple | cst.List):
        return None
    if len(target.elements) != len(item.elements):
        return None
    found: dict[str, Expr] = {}
    for one, value in zip(nodes.elements(target), nodes.elements(item), strict=True):
        inner = bound_names(one, value)
        if inner is None:
            return None
        found |= inner
    return found


def _statements(node: cst.CSTNode) -> list[Statement]:
    return list(every(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)))


class _Numbers(cst.CSTTransformer):
    """Puts numbers that are known in the place of names and calls."""

    def __init__(self, known: Callable[[Expr], Expr]) -> None:
        super().__init__()
        self.known = known

    def visit_Call(self, node: cst.Call) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return False

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        return self.known(updated_node)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return self.known(updated_node)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> Expr:
        return self.known(updated_node)


class _Texts(cst.CSTTransformer):
    """Writes names that are known by now as they are: "conv0" for f"conv{0}"."""

    def _known(self, updated_node: Expr) -> Expr:
        found = names_written.text(updated_node)
        return updated_node if found is None else cst.SimpleString(f'"{found}"' if '"' not in found else repr(found))

    def leave_FormattedString(self, original_node: cst.FormattedString, updated_node: cst.FormattedString) -> Expr:
        return self._known(updated_node)

    def leave_BinaryOperation(self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation) -> Expr:
        return self._known(updated_node)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        return self._known(updated_node)
