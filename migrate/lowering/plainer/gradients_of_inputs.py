"""Gradients by inputs that a script takes by `backward()`, as attacks and saliency maps do:

x.requires_grad = True                         loss = criterion(model(x), y)
loss = criterion(model(x), y)                  x_grad = torch.autograd.grad(loss, x)[0]
loss.backward()                                adv = x + eps * x_grad.sign()
adv = x + eps * x.grad.sign()

The input is taken as if it were written the second way, where what `backward()` leaves in the parameters is cleared
before any optimizer steps: by the next statement that does anything with gradients, and by each training loop before
its own backward pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import libcst as cst

from migrate.files.source import SourceFile
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.rounds import Input
from migrate.lowering.updates.gradient_flow import asks_for_gradients
from migrate.lowering.updates.region import method_call_of
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_CLOSED = (cst.FunctionDef, cst.ClassDef)
_CLEARED = (".grad.zero_()", ".grad.data.zero_()", ".grad = None")


@dataclass(frozen=True)
class _Taken:
    """A backward pass for the gradients by some tensors, `names`, in a block of a function, or of the file."""

    backward: Statement
    loss: Expr
    names: tuple[str, ...]
    block: tuple[Statement, ...]
    function: cst.FunctionDef | None

    @property
    def around(self) -> Sequence[Statement]:
        """The statements in which the tensors are meant: those of the function, or of the block in a file."""
        return self.block if self.function is None else suites.suite_of(self.function.body.body)


def with_gradients_of_inputs(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with `torch.autograd.grad` in the place of such backward passes."""
    found = _taken(inputs)
    return [one.edited(_edits(one.source.module, found[one.scope])) if found.get(one.scope) else one for one in inputs]


def passes_by_inputs(inputs: Sequence[Input]) -> list[str]:
    """The lines of these passes, and of calls of `torch.autograd.grad`, as "train.py:44"; none where there is no other
    backward pass: these are all that a script does."""
    found = _taken(inputs)
    passes = [line for one in inputs for line in every(one.source.module, cst.SimpleStatementLine)]
    if sum(method_call_of(line, "backward") is not None for line in passes) == sum(map(len, found.values())):
        return []
    places: list[tuple[SourceFile, cst.CSTNode]] = []
    for one in inputs:
        places += [(one.source, each.backward) for each in found.get(one.scope, ())]
        places += [(one.source, call) for call in _calls_by_inputs(one.source.module)]
    return [f"{PurePath(source.path).name}:{source.positions[node].start.line}" for source, node in places]


def _calls_by_inputs(module: cst.Module) -> list[cst.Call]:
    """The calls of `torch.autograd.grad` by tensors that the file tells to have gradients, and by nothing else."""
    imported = imported_names(module)
    calls = [call for call in usage.calls(module) if full_name(call.func, imported) == "torch.autograd.grad"]
    told = {name for one in every(module, cst.SimpleStatementLine) for name in _told(one)} if calls else set[str]()
    found: list[cst.Call] = []
    for call in calls:
        given = dict(zip(argument_names(call.args, ["outputs", "inputs"]), call.args, strict=True))
        if "inputs" in given and set(usage.loads(given["inputs"].value)) <= told:
            found.append(call)
    return found


def _taken(inputs: Sequence[Input]) -> dict[str, list[_Taken]]:
    """Such backward passes by the scopes of the files of a project; none where a gradient of theirs may be used."""
    if not any(".grad" in one.source.text for one in inputs):
        return {}
    found = {one.scope: list(_taken_in(one.source.module)) for one in inputs}
    taken = [each for group in found.values() for each in group]
    attacks = {each.function.name.value for each in taken if each.function is not None}
    modules = [one.source.module for one in inputs]
    optimizers = sum(map(_optimizers, modules))
    by_hand = optimizers == 0 and any(_sets_data(one) for one in taken)
    alone = bool(taken) and optimizers <= 1 and all(_clears_first(one, taken, attacks) for one in modules)
    return found if alone and not by_hand else {}


def _taken_in(module: cst.Module) -> Iterator[_Taken]:
    """Such backward passes of a file, where that names torch as everybody does."""
    if not any(nodes.code(one).strip() == "import torch" for one in every(module, cst.Import)):
        return
    for function in (None, *every(module, cst.FunctionDef)):
        whole = module.body if function is None else suites.suite_of(function.body.body)
        for block in _blocks(whole):
            for number, statement in enumerate(block):
                receiver = method_call_of(statement, "backward")
                if receiver is None or not _only_keeps_graph(statement):
                    continue
                names = _leaves(block, number, whole)
                if names and _leaves_nothing(block[number + 1 :], function):
                    yield _Taken(statement, receiver.value, names, block, function)


def _blocks(body: Sequence[Statement]) -> Iterator[tuple[Statement, ...]]:
    """A suite, and those inside of it that are of no other function."""
    yield tuple(body)
    for statement in body:
        if not isinstance(statement, _CLOSED):
            yield from (tuple(suites.suite_of(one.body)) for one in every(statement, cst.IndentedBlock, closed=_CLOSED))


def _only_keeps_graph(statement: Statement) -> bool:
    """Whether `backward()` is given nothing that changes what it computes."""
    call = suites.call_alone(statement)
    args = call.args if call is not None else []
    return all(arg.keyword is not None and arg.keyword.value in ("retain_graph", "create_graph") for arg in args)


def _leaves(block: Sequence[Statement], backward: int, whole: Sequence[Statement]) -> tuple[str, ...]:
    """The tensors whose gradients a block reads after a backward pass, if these are of that pass alone: the tensor is
    told to have one in the same block, or its gradient is cleared there."""
    before, after, code = block[:backward], block[backward + 1 :], cst.Module(list(whole))
    lines = list(every(code, cst.SimpleStatementLine))
    names = dict.fromkeys(_owner(one) for statement in after for one in every(statement, cst.Attribute))
    read = [name for name in names if name]
    last = max((i for i, one in enumerate(before) if "backward" in usage.attributes(one)), default=-1)
    told_here = {name for one in before[last + 1 :] for name in _told(one)}
    told = {name for one in lines for name in _told(one)}
    cleared = {name for one in after for name in read if _clears(one, name)}
    own = all(name in told_here or name in told & cleared for name in read)
    own = own and not any(_changes(one, read) for one in lines)
    there = [_owner(one) for one in every(code, cst.Attribute)]
    here = [_owner(one) for statement in after for one in every(statement, cst.Attribute)]
    return tuple(read) if own and all(there.count(name) == here.count(name) for name in read) else ()


def _changes(statement: Statement, names: Sequence[str]) -> bool:
    """Whether a statement changes one of some tensors in place: one that is trained by hand."""
    small = suites.alone(statement)
    paths = {path for name in names for path in (name, f"{name}.data")}
    if isinstance(small, cst.AugAssign):
        return nodes.dotted(small.target) in paths
    call = suites.call_alone(statement)
    func = call.func if call is not None and isinstance(call.func, cst.Attribute) else None
    in_place = func is not None and usage.is_in_place(func.attr.value) and func.attr.value != "requires_grad_"
    return func is not None and in_place and nodes.dotted(func.value) in paths


def _sets_data(taken: _Taken) -> bool:
    """Whether the function of a backward pass, or its block, sets what one of the tensors is: `x.data = ...`."""
    set_there = {nodes.dotted(target) for one in taken.around for target, _ in usage.bindings(one)}
    return bool(set_there & {f"{name}.data" for name in taken.names})


def _owner(node: cst.Attribute) -> str:
    """The name `x` of `x.grad`; "" of other attributes."""
    return node.value.value if node.attr.value == "grad" and isinstance(node.value, cst.Name) else ""


def _told(statement: Statement) -> set[str]:
    """The tensors that a statement says of that they have gradients."""
    small = suites.alone(statement)
    if isinstance(small, cst.Expr) and asks_for_gradients(small.value):
        func = small.value.func if isinstance(small.value, cst.Call) else None
        owner = func.value if isinstance(func, cst.Attribute) and func.attr.value == "requires_grad_" else None
        return {owner.value} if isinstance(owner, cst.Name) else set()
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return set()
    target = small.targets[0].target
    if isinstance(target, cst.Name) and asks_for_gradients(small.value):
        return {target.value}
    flagged = target.value if isinstance(target, cst.Attribute) and target.attr.value == "requires_grad" else None
    return {flagged.value} if isinstance(flagged, cst.Name) and nodes.is_literal(small.value, True) else set()


def _only_tells(statement: Statement, names: Collection[str]) -> bool:
    """Whether a statement does nothing but say of one of some tensors that it has gradients."""
    small = suites.alone(statement)
    makes = isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name)
    return not makes and bool(_told(statement) & set(names))


def _clears(statement: Statement, name: str) -> bool:
    """Whether a statement clears the gradient of a tensor: `if x.grad is not None: x.grad.zero_()` as well."""
    if isinstance(statement, cst.If) and statement.orelse is None and f"{name}.grad" in usage.paths(statement.test):
        return all(_clears(one, name) for one in suites.suite_of(statement.body.body))
    return nodes.code(statement).strip() in {f"{name}{text}" for text in _CLEARED}


def _leaves_nothing(after: Sequence[Statement], function: cst.FunctionDef | None) -> bool:
    """Whether the gradients of parameters are cleared before anything else is done with them in a block; a function
    may also leave them as they are."""
    for statement in after:
        attributes = usage.attributes(statement)
        if method_call_of(statement, "zero_grad") is not None:
            return True
        if "backward" in attributes or "step" in attributes:
            return False
    return function is not None and "step" not in usage.attributes(function.body)


def _optimizers(module: cst.Module) -> int:
    """How many optimizers a file may make."""
    imported = imported_names(module)
    names = [full_name(call.func, imported) or nodes.dotted(call.func) or "" for call in usage.calls(module)]
    return sum("optim." in name and ".lr_scheduler" not in name for name in names)


def _clears_first(module: cst.Module, taken: Sequence[_Taken], attacks: Collection[str]) -> bool:
    """Whether each other backward pass of a file comes after a statement of its block that clears gradients, with no
    such function called in between."""
    own = {one.backward for one in taken}
    for body in (module.body, *(suites.suite_of(one.body) for one in every(module, cst.IndentedBlock))):
        clean = False
        for statement in body:
            if method_call_of(statement, "zero_grad") is not None:
                clean = True
            called = {(nodes.dotted(call.func) or "").rpartition(".")[2] for call in usage.calls(statement)}
            if called & set(attacks) or statement in own:
                clean = False
            elif method_call_of(statement, "backward") is not None and not clean:
                return False
    return True


def _edits(module: cst.Module, taken: Sequence[_Taken]) -> Edits:
    """The edits for the backward passes of a file."""
    edits = Edits()
    used = {one.value for one in every(module, cst.Name)}
    for one in taken:
        named = {name: usage.unused_name(f"{name}_grad", used) for name in one.names}
        used |= {*named.values()}
        by = nodes.name(one.names[0]) if len(named) == 1 else cst.List([cst.Element(nodes.name(x)) for x in named])
        text = "{t} = torch.autograd.grad({loss}, {by})" + ("[0]" if len(named) == 1 else "")
        target = nodes.bare_tuple([*map(nodes.name, named.values())]) if len(named) > 1 else nodes.name(*named.values())
        made = nodes.statement(text, t=target, loss=one.loss, by=by)
        edits.instead[one.backward] = suites.with_comments([made], one.backward)
        idle = one.function is not None and "step" not in usage.attributes(one.function.body)
        for statement in one.around:
            for part in every(statement, (cst.If, cst.SimpleStatementLine), closed=_CLOSED):
                cleared = idle and method_call_of(part, "zero_grad") is not None
                if cleared or any(_clears(part, name) for name in named) or _only_tells(part, named):
                    edits.instead.setdefault(part, [])
            edits.parts |= _plain_mentions(statement, named)
    return edits


def _plain_mentions(statement: Statement, named: Mapping[str, str]) -> dict[cst.CSTNode, cst.CSTNode]:
    """What stands for `x.grad` in a statement, and for the `x.data` that it sets; a function inside has its own."""
    if isinstance(statement, _CLOSED):
        return {}
    gradients = {f"{name}.grad": made for name, made in named.items()}
    data = {f"{name}.data": name for name in named}
    targets = [one.target for one in every(statement, cst.AssignTarget, closed=_CLOSED)]
    found = [(one, gradients.get(nodes.dotted(one) or "")) for one in every(statement, cst.Attribute, closed=_CLOSED)]
    found += [(one, data.get(nodes.dotted(one) or "")) for one in targets if isinstance(one, cst.Attribute)]
    return {one: nodes.name(name) for one, name in found if name is not None}
