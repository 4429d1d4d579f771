"""Weights as values of a function: `functional_call(model, params, (x,))`, and the dicts of weights that go into it.

Where a script calls its models so, a dict of all parameters by name is the tree that the parameters are in Flax, and
what makes such a dict from others, name by name, is a map over trees.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Items, Kind, Model
from migrate.known.states import BATCH_STATS, PARAMS, State
from migrate.known.weight_kinds import WEIGHT_NAME, Parameters, Weight, WeightTree
from migrate.lowering.expressions.arguments import placed
from migrate.lowering.models.model_methods import named_leaves
from migrate.lowering.models.models import Models
from migrate.lowering.weights.named_parameters import DICTS
from migrate.rules.rule import Value, signature
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.weights import weights_of

_CALL = "module, parameter_and_buffer_dicts, args=None, kwargs=None, tie_weights=True, strict=False"
_LISTS = ("list", "tuple")
_NAMED = {"named_parameters": PARAMS, "named_buffers": BATCH_STATS}


class WeightTrees(Models):
    """Dicts of weights as trees, and models called with them."""

    def weight_tree(self, node: Expr) -> Value | None:
        """The tree of what an expression gives the weights of, one by one or by name; None for other expressions."""
        if isinstance(node, cst.Name | cst.Attribute):
            return self.expr(node) if isinstance(self.kind_of(node), WeightTree) else None
        if isinstance(node, cst.DictComp | cst.ListComp | cst.GeneratorExp):
            return self.tree_comprehension(node)
        if not isinstance(node, cst.Call):
            return None
        if nodes.dotted(node.func) in (*DICTS, *_LISTS) and len(node.args) == 1 and not node.args[0].star:
            return self.tree_of_pairs(node.args[0].value, nodes.dotted(node.func) in DICTS)
        if not isinstance(node.func, cst.Attribute) or node.args:
            return None
        owner, method = node.func.value, node.func.attr.value
        if method in _NAMED:
            return self.weights_of_model(owner, method)
        made = self.weight_tree(owner) if method in ("items", "values", "keys", "copy") else None
        if made is None or not isinstance(made.kind, WeightTree) or made.kind.listed:
            return None
        return replace(made, kind=replace(made.kind, listed=method == "values"))

    def weights_of_model(self, owner: Expr, method: str) -> Value | None:
        """`model.named_parameters()`; None of other objects."""
        model = self.kind_of(owner)
        if not isinstance(model, Model) or model.place is None:
            return None
        what, cls = _NAMED.get(method, PARAMS), self.script.places.get(self.root(model.place), model.cls)
        collections = {leaf.flax.partition("/")[0] for leaf in weights_of(self.script, cls)}
        if what == BATCH_STATS and collections - {PARAMS, BATCH_STATS}:
            raise Unsupported("MIG302", f"{nodes.code(owner)}.{method}(): of buffers of its own")
        if what == BATCH_STATS and not self.stats_of(model):
            return Value(nodes.dict_of([]), WeightTree(cls, what))
        kind = WeightTree(cls, what, method == "parameters", model.place)
        return Value(self.read(State(what, model.place)), kind)

    def tree_of_pairs(self, node: Expr, by_name: bool) -> Value | None:
        """`dict(params)`, `dict(model.named_parameters())`, `dict(zip(params.keys(), values))`, `list(grads)`."""
        zipped = isinstance(node, cst.Call) and nodes.dotted(node.func) == "zip" and len(node.args) == 2
        if by_name and zipped and isinstance(node, cst.Call):
            key, value = nodes.name("k"), nodes.name("v")
            each = cst.CompFor(nodes.tuple_of([key, value], parentheses=False), node)
            return self.tree_comprehension(cst.DictComp(key, value, for_in=each))
        made = self.weight_tree(node)
        if made is None or not isinstance(made.kind, WeightTree):
            return None
        listed = made.kind.listed or (isinstance(node, cst.Call) and nodes.code(node.func).endswith(".values"))
        return made if listed != by_name else None

    def tree_comprehension(self, node: cst.DictComp | cst.ListComp | cst.GeneratorExp) -> Value | None:
        """`{n: p - lr * g for (n, p), g in zip(params.items(), grads)}`: a map over trees; None of other ones."""
        if isinstance(node, cst.DictComp):
            key, value = nodes.dotted(node.key), node.value
        elif isinstance(node.elt, cst.Tuple) and len(node.elt.elements) == 2:
            key, value = nodes.dotted(node.elt.elements[0].value), node.elt.elements[1].value
        else:
            key, value = "", node.elt
        each = node.for_in
        found = self.over_trees(each) if each.inner_for_in is None else None
        if found is None or key is None:
            return None
        names, trees = found
        if each.ifs or (key and key not in names):
            raise Unsupported("MIG302", f"{nodes.code(node)}: some of the weights, or under other names")
        looked_up = _LookedUp(names, self)
        value = nodes.visited(_without_requiring(value), looked_up)
        trees |= looked_up.trees
        if names & set(usage.loads(value)):
            raise Unsupported("MIG302", f"{nodes.code(node)} reads the names of weights, which are Flax's in JAX")
        first = next(iter(trees.values())).kind
        assert isinstance(first, WeightTree)
        if any(not _alike(first, tree.kind) for tree in trees.values()):
            raise Unsupported("MIG302", f"{nodes.code(node)}: weights of several models")
        inner = self.inner(dict.fromkeys(trees, Weight()))
        inner.before = []
        made = inner.expr(value).node
        if inner.before:
            raise Unsupported("MIG302", f"{nodes.code(node)} changes state")
        kind = WeightTree(first.cls, first.what, not key)
        if isinstance(made, cst.Name) and made.value in trees:
            same = trees[made.value]
            assert isinstance(same.kind, WeightTree)
            return Value(same.node, replace(kind, place=same.kind.place))
        used = [name for name in trees if name in usage.loads(made)] or list(trees)[:1]
        function: Expr = cst.Lambda(cst.Parameters([cst.Param(cst.Name(name)) for name in used]), nodes.bare(made))
        if isinstance(made, cst.Call) and [nodes.code(arg.value) for arg in made.args] == used:
            function = made.func  # jnp.copy
        return Value(nodes.call("jax.tree.map", function, *(trees[name].node for name in used)), kind)

    def over_trees(self, each: cst.CompFor) -> tuple[set[str], dict[str, Value]] | None:
        """What a comprehension calls the names of weights, and the weights, with the tree of each; None where it runs
        over something else."""
        pairs = [(each.target, each.iter)]
        if isinstance(each.iter, cst.Call) and nodes.dotted(each.iter.func) == "zip":
            if not isinstance(each.target, cst.Tuple) or len(each.target.elements) != len(each.iter.args):
                return None
            targets = [element.value for element in each.target.elements]
            pairs = list(zip(targets, [arg.value for arg in each.iter.args], strict=True))
        trees = [self.listed_tree(source) or self.weight_tree(source) for _, source in pairs]
        if all(tree is None for tree in trees):
            return None
        names, made = set[str](), dict[str, Value]()
        for (target, source), tree in zip(pairs, trees, strict=True):
            if tree is None or not isinstance(tree.kind, WeightTree):
                raise Unsupported("MIG302", f"{nodes.code(each.iter)}: {nodes.code(source)} is no dict of weights")
            method = _method(source)
            paired = isinstance(target, cst.Tuple) and len(target.elements) == 2
            parts = [element.value for element in target.elements] if isinstance(target, cst.Tuple) else [target]
            bound = [part.value for part in parts if isinstance(part, cst.Name)]
            if len(bound) != len(parts) or paired != (method in ("items", "named_parameters", "named_buffers")):
                raise Unsupported("MIG302", f"{nodes.code(target)} over {nodes.code(source)}")
            if paired or not tree.kind.listed:
                names.add(bound[0])
            if paired or tree.kind.listed:
                made[bound[-1]] = tree
        return (names, made) if made else None

    def listed_tree(self, node: Expr) -> Value | None:
        """The tree of `model.parameters()`, and of a list of them; None for other expressions."""
        while isinstance(node, cst.Call) and nodes.dotted(node.func) in _LISTS and len(node.args) == 1:
            node = node.args[0].value
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            listed = node.func.attr.value == "parameters" and not node.args
            return self.weights_of_model(node.func.value, "parameters") if listed else None
        kind = self.kind_of(node)
        if not isinstance(kind, Parameters) or kind.named or len(kind.models) != 1:
            return None
        return self.weights_of_model(nodes.expression(kind.models[0].name), "parameters")

    # -- as values ----------------------------------------------------------------------------------------------------

    def tree_value(self, node: Expr) -> Value | None:
        """A dict of weights that another one makes, as a value of its own; None for other expressions."""
        if not self.unit.functional:
            return None
        method = _method(node)
        made = None if method in _NAMED else self.weight_tree(node)
        if made is None or method not in ("items", "keys"):
            return made
        return each_of_tree(made, method)

    def torch_func_functional_call(self, node: cst.Call) -> Value:
        """`model.apply({"params": params}, x)`."""
        call = self.bind_call("torch.func.functional_call", signature(_CALL), node.args)
        call.only("tie_weights", True)
        call.only("strict", False)
        written = dict(zip(("module", "dicts", "args", "kwargs"), (arg.value for arg in node.args), strict=False))
        written |= {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
        kind = call.kind("module")
        if not isinstance(kind, Model) or kind.place is None:
            raise Unsupported("MIG302", f"{nodes.code(node)}: of what is no known model")
        args = _arguments(written.get("args"), written.get("kwargs"))
        self.record_example(kind, args)
        values = [self.array(arg.value) for arg in args]
        result = self.call_kind(kind, args, values)
        forwards = self.methods_of(kind.cls, "forward")
        mode = self.mode(kind)
        if any(facts.draws for facts in forwards) or self.script.changes_state(kind.cls, mode):
            raise Unsupported("MIG401", f"{nodes.code(node)}: its forward pass draws on the host, or changes buffers")
        given = written.get("dicts", written.get("parameter_and_buffer_dicts", written.get("parameters_and_buffers")))
        assert given is not None
        variables = self.given_variables(kind, given)
        streams = self.streams(kind, mode)
        extra = {"rngs": nodes.dict_of(streams)} if streams else {}
        function = cst.Attribute(self.applied(call.node("module"), kind, mode), cst.Name("apply"))
        return Value(cst.Call(function, nodes.extended([cst.Arg(variables), *placed(args, values)], extra)), result)

    torch_nn_utils_stateless_functional_call = torch_func_functional_call

    def given_variables(self, model: Model, given: Expr) -> Expr:
        """The variables of a model from a dict of its weights, or a tuple of such dicts."""
        assert model.place is not None
        cls, found = self.script.places.get(self.root(model.place), model.cls), dict[str, Expr]()
        for part in nodes.elements(given) if isinstance(given, cst.Tuple | cst.List) else [given]:
            tree = self.weight_tree(part) or self.expr(part)
            if not isinstance(tree.kind, WeightTree) or tree.kind.cls != cls or tree.kind.listed:
                raise Unsupported("MIG302", f"{nodes.code(part)} is no dict of all weights of {model.place.short}")
            found[tree.kind.what] = tree.node
        if PARAMS not in found:
            raise Unsupported("MIG302", f"{nodes.code(given)}: without the parameters of {model.place.short}")
        variables = [(PARAMS, found[PARAMS])]
        if self.stats_of(model):
            stats = found.get(BATCH_STATS)
            variables.append((BATCH_STATS, self.read(State(BATCH_STATS, model.place)) if stats is None else stats))
        return nodes.dict_of(variables)


def each_of_tree(value: Value, method: str = "") -> Value:
    """What a loop over a dict of weights runs through: names, as Flax has them, or the weights of a list."""
    assert isinstance(value.kind, WeightTree)
    if method == "items":
        return Value(named_leaves(value.node), Items(None, Items((WEIGHT_NAME, Weight()), type="tuple")))
    if value.kind.listed:
        return Value(nodes.call("jax.tree.leaves", value.node), Items(None, Weight()))
    return Value(nodes.expression('flatten_dict({x}, sep=".")', x=value.node), Items(None, WEIGHT_NAME))


def method_of_tree(node: cst.Call, value: Value, method: str) -> Value:
    """A method of a dict of weights that has no name."""
    assert isinstance(value.kind, WeightTree)
    if node.args or value.kind.listed or method not in ("items", "keys", "values", "copy"):
        raise Unsupported("MIG302", f"`{nodes.code(node)}`, of a dict of weights, which is a tree in Flax")
    if method in ("items", "keys"):
        return each_of_tree(value, method)
    return replace(value, kind=replace(value.kind, listed=method == "values"))


def of_leaves(value: Value, node: Expr) -> Value:
    """A list of weights as one of Flax's leaves, for what takes any list; raises Unsupported for a dict."""
    if not isinstance(value.kind, WeightTree):
        return value
    if not value.kind.listed:
        raise Unsupported("MIG302", f"`{nodes.code(node)}`: a dict of weights, which is a tree in Flax")
    return each_of_tree(value)


def _arguments(given: Expr | None, keywords: Expr | None) -> list[cst.Arg]:
    """The arguments of the forward pass that a functional call passes on."""
    if given is None or nodes.is_literal(given, None):
        args = []
    elif isinstance(given, cst.Tuple):
        args = nodes.arguments(list(nodes.elements(given)))
    else:
        args = nodes.arguments([given])
    if keywords is None or nodes.is_literal(keywords, None):
        return args
    entries = keywords.elements if isinstance(keywords, cst.Dict) else []
    names = [nodes.literal(entry.key) if isinstance(entry, cst.DictElement) else ... for entry in entries]
    if not entries or not all(isinstance(name, str) for name in names):
        raise Unsupported("MIG302", f"torch.func.functional_call: kwargs={nodes.code(keywords)}")
    values = [entry.value for entry in entries]
    return nodes.extended(args, dict(zip(map(str, names), values, strict=True)))


def _alike(one: WeightTree, other: Kind) -> bool:
    return isinstance(other, WeightTree) and (one.cls, one.what) == (other.cls, other.what)


def _method(node: Expr) -> str:
    """The method that an expression calls, "" for others."""
    func = node.func if isinstance(node, cst.Call) else None
    return func.attr.value if isinstance(func, cst.Attribute) else ""


def _without_requiring(node: Expr) -> Expr:
    """`p.clone().requires_grad_()` without what gradients need in torch alone."""
    return nodes.visited(node, _Requiring())


class _Requiring(cst.CSTTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = updated_node.func
        if isinstance(func, cst.Attribute) and func.attr.value == "requires_grad_":
            return func.value
        return updated_node


class _LookedUp(cst.CSTTransformer):
    """`grads[name]` is `grad`, a variable of its own."""

    def __init__(self, names: set[str], scope: WeightTrees) -> None:
        super().__init__()
        self.names, self.scope = names, scope
        self.trees: dict[str, Value] = {}

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        index = original_node.slice[0].slice
        if not isinstance(index, cst.Index) or nodes.dotted(index.value) not in self.names:
            return updated_node
        tree = self.scope.weight_tree(original_node.value)
        if tree is None:
            return updated_node
        owner = (nodes.dotted(original_node.value) or "weights").rpartition(".")[2]
        one = owner.removesuffix("s") if owner.endswith("s") else f"{owner}_weight"
        name = self.scope.unit.own(one)
        self.trees[name] = tree
        return cst.Name(name)
