"""Loops over parameters that ask of a name what is true of it in torch, `if "encoder" in name: print(name)`, or show
names, shapes or elements: `print(name, p.shape, p[:2])`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.known.kinds import Model, Number, Plain
from migrate.known.states import PARAMS, State
from migrate.known.weight_kinds import SHOWN, Weight
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.weights.made_without_gradient import frozen_somewhere
from migrate.lowering.weights.selections import Selections, names_of_pair
from migrate.lowering.weights.state_dicts import StateDicts
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.per_parameter import OF_PARAMETERS
from migrate.syntax.walking import every
from migrate.weights import model_weights


class NamesInTorch(StateDicts, Selections):
    """Parameters by torch's names."""

    def under_torch_names(self, node: cst.For) -> list[Statement] | None:
        """Such a loop, over a dict of torch's names and the parameters in torch's order of axes; None for others."""
        number, bound, listed = _counted(node)
        names = names_of_pair(bound)
        ordered = number is not None and number.value in usage.loads(node.body)
        if names is None or not (ordered or _names_asked(names, node.body) or _axes_asked(names[-1], node.body)):
            return None
        head = self.by_torch_names(bound, listed, [node.body])
        if head is None:
            return None
        target, iterated = head
        if number is not None:
            target = cst.Tuple([cst.Element(number), cst.Element(target)], lpar=[], rpar=[])
            iterated = nodes.call("enumerate", iterated)
            self.bind(number, Number())
        lowered = self.loop_body(node.body, list)
        return [node.with_changes(target=target, iter=iterated, body=suites.block_of(node.body, lowered))]

    def under_torch_names_in(self, node: cst.BaseComp) -> cst.CompFor | None:
        """The `for` of a comprehension that lists names, shapes or elements, `[p.shape for p in net.parameters()]`, in
        the same way; None for others."""
        each = node.for_in
        names = names_of_pair(each.target)
        if names is None or each.inner_for_in is not None or not isinstance(node, cst.ListComp):
            return None
        tests = [one.test for one in each.ifs]
        listed = [one for part in _listed(node.elt) for one in _parts_shown(part)]
        axes = names[-1] in {(nodes.dotted(one) or "").removesuffix(".data") for one in listed}
        if not axes and not (len(names) == 2 and names[0] in usage.loads([node.elt, *tests])):
            return None
        head = self.by_torch_names(each.target, each.iter, [node.elt, *tests])
        if head is None:
            return None
        ifs = [one.with_changes(test=self.node(one.test)) for one in each.ifs]
        return each.with_changes(target=head[0], iter=head[1], ifs=ifs)

    def by_torch_names(
        self, target: cst.BaseAssignTargetExpression, listed: Expr, body: Sequence[cst.CSTNode]
    ) -> tuple[cst.BaseAssignTargetExpression, Expr] | None:
        """What a loop binds and goes through so that it has torch's names, order and axes, and binds that here; None
        where it does not go through all parameters of a model, or does more with them than `body` may."""
        names = names_of_pair(target) or []
        models = self.whole_models(self.selection(listed)) if self.context in HOST_CONTEXTS else None
        if models is None or len(models) != 1:
            return None
        *named, parameter = names
        attributes = [one for part in body for one in every(part, cst.Attribute)]
        asked = {one.attr.value for one in attributes if nodes.dotted(one.value) == parameter}
        kind = self.kind_of_name(models[0].name)
        if not isinstance(kind, Model) or "grad" in asked:
            return None
        if "requires_grad" in asked and frozen_somewhere(self.script):
            return None
        keys = [one.slice for part in body for one in every(part, cst.Subscript)]
        if asked & OF_PARAMETERS and set(named) & set(usage.loads(each for one in keys for each in one)):
            return None  # averages by name, which other loops change
        changed = [name for part in body for name in (*usage.changes(part), *_set_on(part))]
        if parameter in changed:  # an array of its own would change
            return None
        if model_weights(self.script, kind.cls).ties:  # torch lists a parameter once
            return None
        params = self.read(State(PARAMS, models[0]))
        self.unit.use_snippet("state_dict")
        tree = nodes.dict_of([(PARAMS, params)]) if self.stats_of(kind) else params
        iterated = nodes.call("state_dict", tree, *self.where_weights_are(kind))
        self.env.kinds |= {**dict.fromkeys(named, Plain("str")), parameter: Weight(axes=True, live=True)}
        if parameter not in usage.loads(body):
            return nodes.name(names[0]), iterated
        return target, nodes.expression("{x}.items()" if named else "{x}.values()", x=iterated)


def _counted(node: cst.For) -> tuple[cst.Name | None, cst.BaseAssignTargetExpression, Expr]:
    """The variables of `for i, p in enumerate(net.parameters())`: the number, the rest, and what is counted; no number
    for other loops."""
    listed, pair = node.iter, node.target
    called = isinstance(listed, cst.Call) and nodes.dotted(listed.func) == "enumerate" and len(listed.args) == 1
    if not isinstance(listed, cst.Call) or not called or not isinstance(pair, cst.Tuple) or len(pair.elements) != 2:
        return None, pair, listed
    number, rest = (element.value for element in pair.elements)
    if not isinstance(number, cst.Name) or not isinstance(rest, cst.Name | cst.Tuple):
        return None, pair, listed
    return number, rest, listed.args[0].value


def _names_asked(names: Sequence[str], body: cst.CSTNode) -> bool:
    """Whether the first of two names is that of a weight, and code asks for it or shows it."""
    return len(names) == 2 and (_is_asked(names[0], body) or names[0] in usage.loads(_shown(body)))


def _axes_asked(parameter: str, body: cst.CSTNode) -> bool:
    """Whether code takes elements of a parameter, or shows it, or its shape."""
    taken = [one.value for one in every(body, cst.Subscript)]
    shown = [part for whole in _shown(body) for part in _parts_shown(whole)]
    return parameter in {(nodes.dotted(one) or "").removesuffix(".data") for one in [*taken, *shown]}


def _shown(body: cst.CSTNode) -> list[cst.CSTNode]:
    """What code prints, formats, or hands to something that shows it."""
    calls = [one for one in usage.calls(body) if (nodes.dotted(one.func) or "").rpartition(".")[2] in _SHOWING]
    formatted = [one.right for one in every(body, cst.BinaryOperation) if isinstance(one.operator, cst.Modulo)]
    return [
        *(arg.value for call in calls for arg in call.args),
        *every(body, cst.FormattedStringExpression),
        *formatted,
    ]


def _listed(element: Expr) -> list[Expr]:
    """What an element of a list shows once that is shown: the parts of a tuple."""
    return [each.value for each in element.elements] if isinstance(element, cst.Tuple) else [element]


def _parts_shown(node: cst.CSTNode) -> Iterator[Expr]:
    """The parameters that show in what is shown: themselves, and of which the shape does."""
    for part in every(node, (cst.Name, cst.Attribute, cst.Call), closed=(cst.Attribute, cst.Call)):
        if isinstance(part, cst.Call) and nodes.dotted(part.func) in ("tuple", "list", "str", "repr", "len"):
            yield from (one for arg in part.args for one in _parts_shown(arg.value))
        func = part.func if isinstance(part, cst.Call) else part
        if isinstance(func, cst.Attribute) and func.attr.value in ("shape", "size"):
            yield func.value
        elif isinstance(part, cst.Name | cst.Attribute):
            yield part


def _set_on(body: cst.CSTNode) -> list[str]:
    """The names of what has an attribute set: `p.data = p.data * 2`."""
    targets = [one.target for one in every(body, (cst.AssignTarget, cst.AugAssign))]
    return [nodes.code(nodes.root(one)) for one in targets if isinstance(one, cst.Attribute)]


_SHOWING = frozenset(
    {"print", "format", "info", "debug", "warning", "error", "write", "pprint"}
    | {"add_histogram", "add_scalar", "add_text", "log"}
)


def _is_asked(name: str, body: cst.CSTNode) -> bool:
    """Whether code compares a name, takes it apart, or asks what it begins with."""
    compared: list[cst.CSTNode] = []
    for one in every(body, cst.Comparison):
        compared += [one.left, *(each.comparator for each in one.comparisons)]
    for one in every(body, (cst.Subscript, cst.Call)):
        owner = one.value if isinstance(one, cst.Subscript) else one.func
        if isinstance(owner, cst.Attribute) and isinstance(one, cst.Call):
            owner = owner.value if owner.attr.value not in SHOWN else owner
        compared.append(owner)
    return name in map(nodes.dotted, compared)
