"""Example inputs for `model.init`."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.kept import kept
from migrate.known.facts import CallSite, Example, FunctionFacts
from migrate.known.kinds import (
    UNKNOWN,
    Function,
    Host,
    Instance,
    Items,
    Kind,
    Number,
    Tensor,
    is_batch,
)
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.expressions.elements import DICT, loop_kind
from migrate.lowering.expressions.passed_on import gone_over, starts_anew
from migrate.lowering.expressions.results_followed import assigned_once
from migrate.lowering.host.graphs import element_of, loads_graphs
from migrate.lowering.host.host_draws import GENERATORS, HostDraws
from migrate.lowering.initial.attributes_followed import Followed, attribute_given, with_receiver
from migrate.lowering.models.object_history import class_of_object
from migrate.lowering.statements.state import StateAccess
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.projections import FIRST, projected
from migrate.syntax.walking import every

_LONGEST = 2_000  # characters of an example: nobody reads a longer one, and a value used twice doubles at each turn
LOADER = "torch.utils.data.DataLoader"


class _Sources(cst.CSTTransformer):
    """Puts names of examples in the place of what they are the first of."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[Expr] = []

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        if nodes.dotted(original_node.func) != FIRST:
            return updated_node
        source = original_node.args[0].value
        texts = [nodes.code(found) for found in self.sources]
        if nodes.code(source) not in texts:
            self.sources.append(source)
        number = [*texts, nodes.code(source)].index(nodes.code(source))
        return nodes.name("example" if number == 0 else f"example_{number + 1}")


class Examples(StateAccess, HostDraws, Binding):
    """What a model is first called with, as it can be written where the model is made."""

    def resolve(
        self, example: Example, early: bool, following: frozenset[str] = frozenset(), through_objects: bool = False
    ) -> list[Expr]:
        """The example's arguments in terms of this scope: the parameters of functions between are followed to
        their calls, and attributes of other objects to what these are given (`following`: those on the way here).
        `early`: a loader that this scope makes further down is written out, and attributes are followed where that is
        asked for (`through_objects`)."""
        arguments, scope, definitions = list(example.arguments), example.scope, example.definitions
        held: dict[str, Expr] = {}
        for _ in range(6):
            here = scope == self.scope
            seen = here or scope == self.unit.scope  # names of the module are seen from everywhere
            arguments = [self.expanded(argument, definitions, seen, early) for argument in arguments]
            facts = self.script.functions.get(scope)
            if facts is not None and not here:
                arguments = [self.without_locals(argument, facts) for argument in arguments]
            if here or facts is None or not facts.calls:
                break
            later = [site for site in facts.calls if self._comes_later(site)]  # earlier ones are given another model
            sites = later or facts.calls
            call = next((site for site in sites if self.leads_here(site.scope)), sites[0])
            given = call.bound
            own = f"{self.scope}.".startswith(f"{scope.rpartition('.')[0]}.")
            apart = not own or (not early and self.script.is_constructor(self.scope))
            if facts.method and apart and (through_objects or not early):
                arguments = [self.without_object(argument, scope, early, following, held) for argument in arguments]
            if not early and facts.method and not own:
                given = with_receiver(call)
            standing = _stand_ins(facts, call.bound)
            arguments = [nodes.substituted(argument, standing) for argument in arguments]
            arguments = [projected(nodes.substituted(argument, given)) for argument in arguments]
            scope, definitions = call.scope, call.definitions
        return [projected(nodes.substituted(argument, held)) for argument in arguments] if held else arguments

    def _comes_later(self, site: CallSite) -> bool:
        """Whether a call stands in this scope, below the statement at hand."""
        block = self.blocks[-1] if self.blocks else None
        places = self.unit.source.positions
        here = places.get(block.statements[block.index]) if block is not None else None
        there = places.get(site.node) if site.node is not None and site.scope == self.scope else None
        return here is not None and there is not None and there.start.line >= here.start.line

    def without_locals(self, argument: Expr, facts: FunctionFacts) -> Expr:
        """An argument in which a variable of a function is none of this scope that has the same name."""
        own = set(usage.stores(facts.node.body)) - set(facts.parameter_names)
        hidden = [name for name in usage.loads(argument) if name in own and self.env.lookup(name) is not None]
        return nodes.substituted(argument, {name: nodes.name(f"{name}_of_{facts.node.name.value}") for name in hidden})

    def without_object(
        self, argument: Expr, method: str, early: bool, following: frozenset[str], held: dict[str, Expr]
    ) -> Expr:
        """What a method gives a model, with names in the place of attributes of its object: `held` takes what these are
        given, in terms of this scope."""
        cls = method.rpartition(".")[0]

        def value_of(name: str) -> Expr | None:
            path = f"{cls}.{name}"
            given = attribute_given(self.script.methods(cls), name) if path not in following else None
            if given is None or self.is_bound_by_constructor(cls, name):
                return None
            facts = self.script.functions[given[0]]
            own = {one: value for one in facts.own_names if (value := assigned_once(facts, one)) is not None}
            inner = Example(given[0], (given[1],), own, trained=False)
            found = self.resolve(inner, early, following | {path}, through_objects=True)
            return None if "self" in usage.loads(found[0]) else found[0]

        return nodes.visited(argument, Followed(value_of, held))

    def is_bound_by_constructor(self, cls: str, name: str) -> bool:
        """Whether this is the constructor of a class, and it binds an attribute: others are bound when it is done."""
        constructor = self.script.functions.get(f"{cls}.__init__")
        made = constructor is not None and name in usage.attributes_set(constructor.node.body)
        return made and self.script.is_constructor(self.scope)

    def leads_here(self, scope: str) -> bool:
        """Whether what a scope calls may be called by this one."""
        seen, waiting = set[str](), [scope]
        while waiting:
            one = waiting.pop()
            if one == self.scope:
                return True
            facts = self.script.functions.get(one)
            if one not in seen and facts is not None:
                seen.add(one)
                waiting += [site.scope for site in facts.calls]
        return False

    def expanded(self, argument: Expr, definitions: Mapping[str, Expr], here: bool, early: bool) -> Expr:
        """An expression with local names replaced by what they stand for: all of them where they belong to another
        scope, here those that are not bound yet."""
        left = dict(definitions)
        for _ in range(12):
            argument = self.sample(self.undrawn(nodes.visited(argument, _Placed())))
            names = {name for name in usage.loads(argument) if name in left}
            values = {name: left[name] for name in names if not (here and self.is_bound_so(name, left[name]))}
            if here and not early:
                later = {name for name, value in values.items() if self.makes_loader(value)}
                # a name that has another loader by now is none to take a batch from
                values |= {name: nodes.name(f"{name}_later") for name in later if self.available_name(name)}
                values = {name: value for name, value in values.items() if not self.makes_loader(value)}
            if not values:
                break
            for name, value in values.items():
                if name in usage.loads(value):  # `x = x.to(device)` of a parameter x: what is left is the parameter
                    del left[name]
            argument = projected(nodes.substituted(argument, values))
            if len(nodes.code(argument)) > _LONGEST:
                raise Unsupported("MIG402", "the example would be too long: what it is made of is used many times over")
        return argument

    def is_bound_so(self, name: str, value: Expr) -> bool:
        """Whether a name is bound by now, and not to something else than where the model is called."""
        now = self.env.definitions.get(name, value)
        return self.available_name(name) and (now is value or nodes.code(now) == nodes.code(value))

    def makes_loader(self, node: Expr) -> bool:
        """Whether an expression makes a loader: what needs its batches waits for the statement that does."""
        if not isinstance(node, cst.Call):
            return False
        kind = self.kind_of(node.func)
        made = self.script.functions[kind.name].result if isinstance(kind, Function) else None
        return made == Host("loader") or self.torch_name(node.func) == LOADER

    def example_arguments(
        self,
        resolved: list[Expr],
        whole: Container[int] = (),
        function: FunctionFacts | None = None,
        names: Sequence[str] = (),
    ) -> tuple[list[Statement], list[Expr] | None]:
        """Statements that prepare an example, and the arguments of `init`; None where a name is not bound yet.
        `whole`: those of which all that is in a batch is given."""
        resolved = [nodes.visited(argument, _Worked(self)) for argument in resolved]
        found = _Sources()
        arguments = [argument.deep_clone().visit(found) for argument in resolved]
        sources = found.sources
        if not all(self.available(source) for source in sources):
            return [], None
        if any(self.reads_unset(one) or self.runs_unmade(one) for one in resolved):
            return [], None
        prepared: list[Statement] = []
        bound: dict[str, Kind] = {}
        for number, source in enumerate(sources):
            if isinstance(source, cst.Call) and self.torch_name(source.func) == LOADER:
                self.script.unnamed_loaders.add((self.scope, usage.site_of(source)))
            value = self.expr(source)
            if self.is_still_empty(source, value.kind):
                return [], None
            name = "example" if number == 0 else f"example_{number + 1}"
            node, kind = self.first_of(value)
            if node is None:
                raise Unsupported("MIG402", f"the first element of {nodes.code(source)}")
            bound[name] = kind
            first = nodes.statement(f"{name} = {{node}}", node=self.undisturbed(source, node))
            if loads_graphs(value.kind):  # which draws with torch's generator
                forked = kept(nodes.expression("torch.random.fork_rng()"))
                block = cst.With([cst.WithItem(forked)], cst.IndentedBlock([first]))
                prepared.append(block)
            else:
                prepared.append(first)
        inner = self.inner(bound)
        inner.nested, inner.sampling = False, True
        made: list[Expr] = []
        for number, argument in enumerate(arguments):
            assert isinstance(argument, cst.BaseExpression)
            if not all(name in bound or self.available_name(name) for name in usage.loads(argument)):
                return [], None
            value = inner.expr(self.sample(argument))
            given = names[number] if number < len(names) else ""
            parts = inner.in_parts(value, function, given) if function is not None and given else None
            value = parts or (inner.each_as_array(value) if number in whole else inner.as_array(value))
            made.append(self.undisturbed(argument, value.node))
        return prepared, made

    def is_still_empty(self, source: Expr, kind: Kind) -> bool:
        """Whether a list is filled further down, or by the loop at hand."""
        before = self.heads[0].kinds.get(source.value, kind) if self.heads and isinstance(source, cst.Name) else kind
        return any(isinstance(one, Items) and one.items == () for one in (kind, before))

    def reads_unset(self, node: Expr) -> bool:
        """Whether an expression reads an attribute that this constructor sets further down, or that other methods alone
        do."""
        if self.facts is None or not self.script.is_constructor(self.scope):
            return False
        here = usage.attributes_set(self.facts.node.body)
        methods = self.script.methods(self.scope.rpartition(".")[0]).values()
        of_bases = "super" in usage.loads(self.facts.node.body)
        set_by_methods = (
            set() if of_bases else {one for each in methods for one in usage.attributes_set(each.node.body)}
        )
        later = {f"self.{name}" for name in here} - {*self.bound_attributes}
        later |= {f"self.{name}" for name in set_by_methods - here}
        return bool(later & set(usage.paths(node)))

    def runs_unmade(self, node: Expr) -> bool:
        """Whether an expression calls a function that runs a model which has no weights yet."""
        waiting = {self.root(place) for what, place, _ in self.pending if what == "model"}
        for call in usage.calls(node):
            kind = self.kind_of(call.func)
            used = self.script.functions[kind.name].models_run if isinstance(kind, Function) else ()
            if waiting & {self.root(place) for place in used}:
                return True
        return False

    def undisturbed(self, source: Expr, node: Expr) -> Expr:
        """An example that leaves the generators as they are which the functions in its source draw from."""
        of_data = ".dataset[0]" in nodes.code(node)
        if of_data and self.data_keeps_generators():
            node = nodes.visited(node, _OfCopy())
        node = nodes.visited(node, _OfCopies(self))
        from_data = of_data and self.data_draws()
        if not (from_data or self.draws_inside(source) or self.draws_on_host(source)):
            return node
        self.unit.use_snippet("without_drawing")
        return nodes.expression("without_drawing(lambda: {node})", node=node)

    def changes_own_object(self, call: cst.Call) -> bool:
        """Whether a method changes its object, which a class of the script's own has made that has no state in JAX."""
        func = call.func
        path = nodes.dotted(func.value) if isinstance(func, cst.Attribute) else None
        if not isinstance(func, cst.Attribute) or not path or type(self.kind_of_name(path)) is not Kind:
            return False
        cls = class_of_object(self, path)
        return cls is not None and not self.script.own_classes.only_asks(cls, func.attr.value)

    def data_draws(self) -> bool:
        """Whether data sets of the project draw with Python or numpy what they give."""
        functions = [one for module in self.project() for one in every(module, cst.FunctionDef)]
        return any(one.name.value == "__getitem__" and self.draws_on_host(one.body) for one in functions)

    def data_keeps_generators(self) -> bool:
        """Whether data sets of the project have generators of random numbers of their own."""
        return any(_keeps_generator(one) for module in self.project() for one in every(module, cst.ClassDef))

    def project(self) -> list[cst.Module]:
        """The files of the project."""
        return [unit.source.module for unit in self.unit.others.values() or [self.unit]]

    def sample(self, argument: Expr) -> Expr:
        """One row of a tensor at hand serves as well as the rows that an index would pick."""
        if isinstance(argument, cst.Subscript) and isinstance(argument.value, cst.Name):
            kind = self.kind_of_name(argument.value.value)
            if isinstance(kind, Tensor) and len(argument.slice) == 1:
                return nodes.expression("{x}[:1]", x=argument.value)
        return argument

    def shown(self, loader: Value) -> Value:
        """The loader itself in `tqdm(loader)`, or behind a name for that."""
        node = loader.node
        if isinstance(node, cst.Name):
            node = self.env.definitions.get(node.value, node)
        through = self.gone_through(node)
        return loader if through is node else replace(loader, node=through)

    def iterated_data(self, loader: Expr) -> cst.FunctionDef | None:
        """The `__iter__` of the data of a loader, where they are an IterableDataset of the project's own."""
        made = self.env.definitions.get(loader.value) if isinstance(loader, cst.Name) else loader
        if not isinstance(made, cst.Call) or not made.args:
            return None
        told = [arg.value for arg in made.args if arg.keyword is None or arg.keyword.value == "dataset"]
        data = self.env.definitions.get(told[0].value) if told and isinstance(told[0], cst.Name) else (*told, None)[0]
        name = nodes.dotted(data.func) if isinstance(data, cst.Call) else None
        modules = [unit.source.module for unit in self.unit.others.values() or [self.unit]]
        for cls in (one for module in modules for one in every(module, cst.ClassDef)):
            bases = [(nodes.dotted(base.value) or "").rpartition(".")[2] for base in cls.bases]
            if cls.name.value == (name or "").rpartition(".")[2] and "IterableDataset" in bases:
                methods = [one for one in cls.body.body if isinstance(one, cst.FunctionDef)]
                return next((one for one in methods if one.name.value == "__iter__"), None)
        return None

    def first_of(self, value: Value) -> tuple[Expr | None, Kind]:
        """A first batch, without drawing one from the loader: that would change its random order."""
        if isinstance(value.kind, Host) and value.kind.what == "loader":
            value = self.shown(value)
            each = self.iterated_data(value.node)
            if each is not None and _gives_self(each):
                return None, Host("batch")
            first = "{loader}.dataset[0]" if each is None else "next(iter({loader}.dataset))"
            node = nodes.expression(f"{{loader}}.collate_fn([{first}])", loader=value.node)
            return node, Host("batch")
        graph = element_of(value.kind)
        if graph is not None:
            if not loads_graphs(value.kind):
                return nodes.expression("{x}[0]", x=value.node), graph
            self.unit.use_snippet("without_drawing")
            return nodes.expression("without_drawing(lambda: next(iter({x})))", x=value.node), graph
        if isinstance(value.kind, Host):
            return nodes.expression("next(iter({x}))", x=value.node), Host("batch")
        if isinstance(value.kind, Instance) and (elements := gone_over(self, value.kind)) is not value.kind:
            taken = nodes.expression("next(iter({x}))", x=value.node) if starts_anew(self, value.kind) else None
            return taken, loop_kind(elements, id(value.node))
        if isinstance(value.kind, Tensor):
            return nodes.expression("{x}[0]", x=value.node), Tensor()
        if isinstance(value.kind, Items) and value.kind.type in ("list", "tuple"):
            return nodes.expression("{x}[0]", x=value.node), loop_kind(value.kind, id(value.node))
        if isinstance(value.kind, Items) and value.kind.type == DICT:
            return nodes.expression("next(iter({x}))", x=value.node), UNKNOWN
        if isinstance(value.node, cst.Call) and nodes.dotted(value.node.func) in ("np.asarray", "np.arange"):
            return nodes.expression("{x}[0]", x=value.node), UNKNOWN
        if isinstance(value.kind, Items) and value.kind.type == "generator" and isinstance(value.node, cst.Call):
            return nodes.expression("next({x})", x=value.node), loop_kind(value.kind, id(value.node))
        return None, Number()


def _gives_self(method: cst.FunctionDef) -> bool:
    """Whether a method gives its own object, so that what is taken of it is gone."""
    return any(one.value is not None and nodes.dotted(one.value) == "self" for one in usage.returns(method.body))


def _stand_ins(facts: FunctionFacts, given: Mapping[str, Expr]) -> dict[str, Expr]:
    """What stands for the parameters that a call leaves out: the default, or what `if p is None: p = ...` gives."""
    by_keyword = {p.name.value: p.default for p in facts.node.params.kwonly_params if p.default is not None}
    found = {name: default for name, default in (facts.defaults | by_keyword).items() if name not in given}
    for branch in suites.suite_of(facts.node.body.body):
        inside = suites.suite_of(branch.body.body) if isinstance(branch, cst.If) else []
        small = inside[0].body[0] if len(inside) == 1 and isinstance(inside[0], cst.SimpleStatementLine) else None
        if isinstance(branch, cst.If) and isinstance(small, cst.Assign):
            name = nodes.code(small.targets[0].target)
            if name in found and nodes.code(branch.test) == f"{name} is None":
                found[name] = nodes.parenthesized(small.value)
    return {name: default for name, default in found.items() if not nodes.is_literal(default, None)}


class _Placed(cst.CSTTransformer):
    """Takes `.to(device)` and the like off an example: only shape and dtype matter. `x[0 : 0 + 8]`, the first turn of a
    loop, is `x[:8]`."""

    def leave_BinaryOperation(self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation) -> Expr:
        started = isinstance(updated_node.operator, cst.Add) and nodes.is_literal(updated_node.left, 0)
        return updated_node.right if started else updated_node

    def leave_Slice(self, original_node: cst.Slice, updated_node: cst.Slice) -> cst.Slice:
        first = updated_node.lower is not None and nodes.is_literal(updated_node.lower, 0)
        return updated_node.with_changes(lower=None) if first else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = updated_node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("to", "cuda"):
            return updated_node
        placed = all(nodes.code(arg.value).rpartition(".")[2] in ("device", "cuda") for arg in updated_node.args)
        return func.value if placed else updated_node


def _has_several(args: Sequence[cst.Arg]) -> bool:
    """Whether a call is given several sizes: `(2, 4)`, `[2, 4]` or `2, 4`."""
    first = args[0].value if args else None
    return len(nodes.elements(first) if isinstance(first, cst.Tuple | cst.List) else args) > 1


_MADE_OF_SIZES = ("torch.zeros", "torch.ones", "torch.rand", "torch.randn", "torch.empty")


class _Worked(cst.CSTTransformer):
    """What an example is worked on with, without what its shape does not go by: of `x + torch.zeros_like(x)`, and of
    `extract(scales, t) * x`, whose function is another file's, `x`. There the result has mostly the shape of what is
    worked on; Flax refuses weights of another shape as soon as they meet a real input."""

    def __init__(self, scope: Examples) -> None:
        super().__init__()
        self.scope = scope

    def leave_BinaryOperation(self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation) -> Expr:
        left, right = updated_node.left, updated_node.right
        if not isinstance(updated_node.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide):
            return updated_node
        zeros = f"torch.zeros_like({nodes.code(nodes.bare(left))})"
        if isinstance(updated_node.operator, cst.Add | cst.Subtract) and nodes.code(right) == zeros:
            return self._alone(left, updated_node)
        there = self._is_there(left)
        kept = left if there else right
        if there == self._is_there(right) or not self._is_tensor(kept):
            return updated_node
        return self._alone(kept, updated_node)

    def _is_there(self, side: Expr) -> bool:
        return all(name == FIRST or self.scope.available_name(name) for name in usage.loads(side))

    def _is_tensor(self, node: Expr) -> bool:
        """Whether an expression surely gives a tensor with several axes, as inputs have, and no factor."""
        match node:
            case cst.Name():
                kind = self.scope.kind_of(node)
                return is_batch(kind) or (isinstance(kind, Tensor) and kind.rank > 1)
            case cst.Call(func=func) if nodes.dotted(func) in (FIRST, "next"):
                return True
            case cst.Call(func=func) if self.scope.torch_name(func) in _MADE_OF_SIZES:
                return _has_several(node.args)
            case cst.Call(func=cst.Attribute(attr=cst.Name(value="reshape" | "view"))) if _has_several(node.args):
                return True
            case cst.Call(func=cst.Attribute(value=owner)) | cst.Subscript(value=owner):
                return self._is_tensor(owner)
            case cst.BinaryOperation(left=left, right=right):
                return self._is_tensor(left) or self._is_tensor(right)
            case _:
                return False

    def _alone(self, side: Expr, whole: cst.BinaryOperation) -> Expr:
        return nodes.bare(side) if whole.lpar else side


def _keeps_generator(cls: cst.ClassDef) -> bool:
    """Whether a data set makes a generator that its elements draw from."""
    gives = any(isinstance(one, cst.FunctionDef) and one.name.value == "__getitem__" for one in cls.body.body)
    kept = [one.value for one in every(cls, cst.Assign) if gives and usage.attributes_assigned(one)]
    calls = [nodes.dotted(value.func) or "" for value in kept if isinstance(value, cst.Call)]
    return any(path.rpartition(".")[2] in GENERATORS for path in calls)


class _OfCopies(cst.CSTTransformer):
    """What methods give of copies of the objects that they change: those go on as they were."""

    def __init__(self, scope: Examples) -> None:
        super().__init__()
        self.scope = scope

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = updated_node.func
        if not isinstance(func, cst.Attribute) or not self.scope.changes_own_object(original_node):
            return updated_node
        return updated_node.with_changes(func=func.with_changes(value=nodes.call("copy.deepcopy", func.value)))


class _OfCopy(cst.CSTTransformer):
    """The first element of a copy of a data set: the generators of the data set go on as they were."""

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        whole = updated_node.value
        if not isinstance(whole, cst.Attribute) or whole.attr.value != "dataset":
            return updated_node
        return updated_node.with_changes(value=nodes.call("copy.deepcopy", whole))
