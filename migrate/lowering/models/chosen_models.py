"""Models whose class is told as the script runs: `model = LSTM() if args.model == "lstm" else Transformer()`.

In Flax all of them are called alike, as long as each takes what any of them needs: a mode, keys, batch statistics. What
a script does with the weights of one class alone is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import Function, Items, Kind, Makers, Model, ModuleClass, Place, ProjectModule
from migrate.known.qualified import either, is_chosen, options, spelled, spelled_options
from migrate.known.script import INLINE
from migrate.known.told_classes import Choice
from migrate.lowering.scope import HOST_CONTEXTS, Scope
from migrate.lowering.unit import Environment
from migrate.syntax import nodes, usage
from migrate.syntax.flags import is_flag
from migrate.syntax.walking import every


class ChosenModels(Scope):
    """What is known of a model that has one of several classes."""

    def models_here(self) -> set[Place]:
        """The models that this scope knows at this point, by their places."""
        return {kind.place for kind in self.env.kinds.values() if isinstance(kind, Model) and kind.place is not None}

    def note_chosen(self, branch: cst.If, before: set[Place], ways: Sequence[Environment]) -> None:
        """Remembers, after a branch, the models that it makes of one class or another. Their weights are made once
        after it where each way makes one, and none was there before."""
        bound = {*usage.stores(branch), *(f"self.{name}" for name in usage.attributes_set(branch))}
        for name, kind in self.env.kinds.items():
            place = kind.place if isinstance(kind, Model) else None
            if name not in bound or not isinstance(kind, Model) or place is None or self.passed_in(place):
                continue
            found = [way.kinds.get(name) for way in ways]
            made = [one.cls for one in found if isinstance(one, Model)]
            waiting = any(entry[:2] == ("model", place) for entry in self.pending)
            if waiting and (len(made) < len(found) or place in before):
                self.script.eager.add(place)
            if len(set(made)) > 1:
                depth = len(self.conditions)
                self.script.chosen[place] = kind.cls
                self.note_choice(branch, place, made)
                self.script.chosen_under[place] = min(depth, self.script.chosen_under.get(place, depth))
                if place not in self.script.handed:
                    self.script.places[place] = kind.cls

    def note_choice(self, branch: cst.If, place: Place, made: Sequence[str]) -> None:
        """Remembers which class a branch makes on either side, where its test says the same from then on."""
        before = self.script.choices.pop(place, None)
        if len(made) != 2 or not self.says_the_same(branch.test, place) or self.made_again(branch, place.name):
            return
        yes, no = (frozenset(options(cls)) for cls in made)
        nested = before is not None and isinstance(branch.orelse, cst.If) and before.test is branch.orelse.test
        self.script.choices[place] = Choice(branch.test, yes, before if nested and before is not None else no)

    def says_the_same(self, test: cst.BaseExpression, place: Place) -> bool:
        """Whether a test has one answer wherever a model can be reached: what it reads is set once."""
        if place.scope not in (self.scope, self.unit.scope) or not is_flag(test):
            return False
        outside = place.scope == self.unit.scope
        names, attributes = set(usage.loads(test)), set(usage.attributes(test))
        file = self.unit.source.module
        taken = [one.name.value for one in every(file, cst.Param)] if outside else []
        within = [name for one in every(file, cst.FunctionDef) for name in usage.stores(one.body)] if outside else []
        bound = [*usage.stores(file if outside else self.own_body), *taken, *within]
        targets = every(file, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign))
        set_later = {one.target.attr.value for one in targets if isinstance(one.target, cst.Attribute)}
        return all(bound.count(name) <= 1 for name in names) and not attributes & set_later

    def made_again(self, branch: cst.If, name: str) -> bool:
        """Whether a model is made under a name outside of a branch, with all its sides, as well."""
        whole = next(one for one in every(self.own_body, cst.If) if any(each is branch for each in _sides_of(one)))
        inside = set(every(whole, cst.Assign))
        others = [one for one in every(self.own_body, cst.Assign) if one not in inside and name in usage.stores(one)]
        return any(isinstance(one.value, cst.Call) and self.makes_model(self.kind_of(one.value.func)) for one in others)

    def classes_where(self, test: cst.BaseExpression, holds: bool) -> None:
        """On one side of a branch, the classes of models that its test leaves."""
        for place, choice in self.script.choices.items():
            if place.scope in (self.scope, self.unit.scope):
                left = choice.left_by(test, holds)
                self.env.left[place] = self.env.left.get(place, left) & left

    def called_apart(self, place: Place) -> bool:
        """Whether a model is only called where its class is told, and takes other arguments where it has another."""
        chosen = self.script.chosen.get(place, "")
        if place not in self.script.choices or (place, chosen) in self.script.examples_of:
            return False
        found = [self.script.examples_of.get((place, option)) for option in options(self.class_now(place))]
        return len({one and (len(one.arguments), one.names, one.method) for one in found}) > 1

    def class_at(self, place: Place, kind: Model) -> str:
        """The class of the model at a place, with those that it has where other branches are taken."""
        chosen = self.script.chosen.get(place, kind.cls)
        cls = either(kind.cls, chosen) if set(options(kind.cls)) <= set(options(chosen)) else kind.cls
        if is_chosen(cls):
            self.call_alike(cls)
        return cls

    def call_alike(self, cls: str) -> None:
        """Declines a choice of classes that cannot be called alike. One without a mode is told one all the same."""
        found = [(one, self.script.classes.get(one)) for one in options(cls)]
        apart = any(facts is None or facts.extends or INLINE in one for one, facts in found)
        if apart or len({self.script.weightless(one) for one, _ in found}) > 1:
            raise Unsupported("MIG404", f"a model that is {spelled_options(cls)} as the script runs")
        for _, facts in found:
            if facts is not None:
                facts.own_trains |= self.script.trains(cls)

    def made_after_branch(self, place: Place) -> bool:
        """Whether this is a branch after which the weights of a model of one of several classes are made."""
        outer = self.script.chosen_under.get(place, len(self.conditions))
        return len(self.conditions) > outer and place not in self.script.eager

    def want_inside(self, place: Place) -> None:
        """Has each branch make the weights of its model, where what follows it can not."""
        if place in self.script.chosen.keys() - self.script.eager and not self.script.still_open():
            self.script.eager.add(place)

    def class_now(self, place: Place) -> str:
        """The class of a model as far as it is known here: in a branch, that which the branch makes."""
        kind = self.kind_of_name(place.name)
        return kind.cls if isinstance(kind, Model) and kind.place == place else self.script.places[place]

    def class_here(self, cls: str) -> str:
        """A class by the name that it has in this file."""
        name = spelled(cls)
        if self.kind_of_name(name) != ModuleClass(cls):
            raise Unsupported("MIG404", f"a model that may be {name}, of another file, which reports its weights")
        return name

    def methods_of(self, cls: str, method: str) -> list[FunctionFacts]:
        """A method of the user's as each class has it that a model may be of; none where some has no such method."""
        found = [self.script.functions.get(f"{option}.{method}") for option in options(cls)]
        return [facts for facts in found if facts is not None] if None not in found else []

    def refuse_named(self, func: cst.BaseExpression) -> None:
        """Declines to make what a name tells as the script runs, where the file that it is looked up in has models:
        `getattr(nets, args.arch)()`, `globals()[args.arch]()`."""
        if any(isinstance(kind, ModuleClass) for kind in self.kinds_looked_up(func)):
            told = f"{nodes.code(self.as_written(func))} may make a model, of a class that is told as the script runs"
            raise Unsupported("MIG201", told)

    def named_makers(self, node: cst.Call) -> Makers | None:
        """`resnet.__dict__[args.arch]()`: the classes of models in that file, and its functions that return a model, as
        far as they can be called like this. None for other calls, and where nothing there can make a model."""
        known = self.kinds_looked_up(node.func)
        makers = [kind for kind in known if self.makes_model(kind) and self.can_be_called(kind, node)]
        return Makers(tuple(dict.fromkeys(makers))) if makers else None

    def as_written(self, func: cst.BaseExpression) -> cst.BaseExpression:
        """An expression, or what a name was given."""
        return self.env.definitions.get(func.value, func) if isinstance(func, cst.Name) else func

    def kinds_looked_up(self, func: cst.BaseExpression) -> list[Kind]:
        """What all the names of the file are that an expression looks a name up in; none for other expressions."""
        file = self.looked_up_in(self.as_written(func))
        if file is None or self.context not in HOST_CONTEXTS:
            return []
        return list(
            {**self.script.finals.get(file, {}), **(self.env.kinds if file == self.unit.scope else {})}.values()
        )

    def makes_model(self, kind: Kind) -> bool:
        """Whether it is a class of models, or a function that returns one."""
        if isinstance(kind, Function):
            return isinstance(self.script.functions[kind.name].result, Model)
        return isinstance(kind, ModuleClass)

    def can_be_called(self, kind: Kind, node: cst.Call) -> bool:
        """Whether a class or a function takes as many arguments, under such names, as a call has."""
        if any(arg.star for arg in node.args):
            return True
        made = isinstance(kind, ModuleClass)
        called = self.script.classes[kind.cls].method("__init__") if made else None
        called = self.script.functions[kind.name].node if isinstance(kind, Function) else called
        if called is None:
            return not node.args
        taken = called.params
        names = [p.name.value for p in (*taken.params[made:], *taken.kwonly_params)]
        needed = [p.name.value for p in (*taken.params[made:], *taken.kwonly_params) if p.default is None]
        placed = [name for name, arg in zip(names, node.args, strict=False) if arg.keyword is None]
        given = {*placed, *(arg.keyword.value for arg in node.args if arg.keyword is not None)}
        open_ended = taken.star_kwarg is not None or isinstance(taken.star_arg, cst.Param)
        fits = given <= set(names) and len(given) == len(node.args)
        return set(needed) <= given and (fits or open_ended)

    def looked_up_in(self, node: cst.BaseExpression) -> str | None:
        """The file of which an expression takes something by a name that is told as the script runs."""
        asked = node.value if isinstance(node, cst.Subscript) else node
        if not isinstance(asked, cst.Call):
            owner = asked.value if isinstance(asked, cst.Attribute) and asked.attr.value == "__dict__" else None
            kind = self.kind_of(owner) if owner is not None and isinstance(node, cst.Subscript) else None
            return kind.scope if isinstance(kind, ProjectModule) else None
        name, args = nodes.dotted(asked.func), [arg.value for arg in asked.args]
        own = name == "eval" or (name in ("globals", "locals", "vars") and not args)
        if own or (name == "getattr" and args and nodes.code(args[0]).startswith("sys.modules[")):
            return self.unit.scope
        kind = self.kind_of(args[0]) if name in ("getattr", "vars") and args else None
        return kind.scope if isinstance(kind, ProjectModule) else None

    def refuse_chosen(self, cls: str, what: str) -> None:
        """Declines what is known of a model of one class only."""
        if is_chosen(cls):
            raise Unsupported("MIG404", f"{what} of a model that is {spelled_options(cls)} as the script runs")

    def refuse_unlike(self, kind: Model, method: str) -> None:
        """Declines a method that runs on the host, but for one that all classes inherit, and that is given nothing of
        the model."""
        methods = self.methods_of(kind.cls, method)
        inherited = methods and all(facts is methods[0] and not facts.states for facts in methods)
        if not inherited:
            self.refuse_chosen(kind.cls, f".{method}()")


def joined_results(methods: Sequence[FunctionFacts]) -> Kind:
    """What a call gives of whichever of some functions."""
    return Items(tuple(facts.result for facts in methods)).joined()


def _sides_of(branch: cst.If) -> Iterator[cst.If]:
    """A branch, and those that are its `elif`."""
    yield branch
    if isinstance(branch.orelse, cst.If):
        yield from _sides_of(branch.orelse)
