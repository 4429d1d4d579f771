"""What a forward pass keeps on its module for others to read: `self.last_loss = loss`, and `model.last_loss` after it.

A Flax module is frozen, and a pure function returns what it computes. So the input is taken as if such a class had a
method that returns it beside the output, `forward_with_last_loss`, and what reads it had called that:
`logits, last_loss = model.forward_with_last_loss(x, y)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import libcst as cst

from migrate.known.facts import ClassFacts
from migrate.known.kinds import Place
from migrate.known.qualified import file_of
from migrate.known.script import Script
from migrate.lowering.modules.sown import LocalNames
from migrate.lowering.plainer.body_at_call import INNER
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.lowering.plainer.kept_mentions import Mention, mentions
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class _Unclear(Exception):
    """What is read cannot be told to be what one call has kept."""


def with_kept_returned(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project with forward passes that return what was read of their modules; None where nothing is."""
    script = lowered[0].script
    for cls in dict.fromkeys(looked.cls for looked in script.looked_at.values()):
        facts = script.classes.get(cls)
        if facts is None or facts.node is None or all(one.scope != file_of(cls) for one in inputs):
            continue
        edits = {one.scope: Edits() for one in inputs}
        try:
            _Keeping(script, facts, cls, inputs).put_into(edits)
        except _Unclear:
            continue
        return [
            replace(one, source=edited(one.source, edits[one.scope])) if edits[one.scope] else one for one in inputs
        ]
    return None


@dataclass(frozen=True)
class _Read:
    """A place that reads what a forward pass has kept, and the statement that calls that."""

    node: cst.Attribute
    call: cst.Call
    statement: cst.SimpleStatementLine
    around: cst.Module | cst.FunctionDef


class _Keeping:
    """What one class keeps. Raises _Unclear where its forward pass may leave what another one has kept."""

    def __init__(self, script: Script, facts: ClassFacts, cls: str, inputs: Sequence[Input]) -> None:
        assert facts.node is not None
        self.script, self.cls, self.inputs, self.node = script, cls, inputs, facts.node
        self.functions = {one.node.name.value for one in script.functions.values()}
        methods = suites.methods_of(self.node)
        if "forward" not in methods or facts.bases or script.is_base(cls):
            raise _Unclear
        self.forward = methods.pop("forward")
        self.init = methods.pop("__init__", None)
        known = {*facts.fields, *facts.parameters, *facts.buffers, *facts.variables, *facts.children}
        looked = dict.fromkeys(one.name for one in script.looked_at.values() if one.cls == cls)
        kept = [name for name in looked if name in usage.attributes_set(self.forward.body) and name not in known]
        others = {name for one in methods.values() for name in usage.attributes(one)}
        if not kept or others & set(kept) or self.forward.decorators:
            raise _Unclear
        taken = {one.value for one in every(self.forward, cst.Name)} - set(usage.attributes(self.forward))
        self.own = {name: name if name not in taken else usage.unused_name(f"{name}_", taken) for name in kept}
        self.method = usage.unused_name(f"forward_with_{'_and_'.join(kept)}", methods)

    def put_into(self, edits: Mapping[str, Edits]) -> None:
        """Notes what changes in the class and where that is read. What is read of it as a part of a model, that keeps
        first."""
        if self._kept_by_wholes(edits):
            return
        reads = {one.scope: list(self._reads(one)) for one in self.inputs}
        if not any(reads.values()):
            raise _Unclear
        for scope, found in reads.items():
            _put_reads(edits[scope], found, self.method, list(self.own))
        mine = edits[file_of(self.cls)]
        mine.instead[self.forward] = self._methods()
        for one in self._constants():
            mine.instead[one] = []

    def _kept_by_wholes(self, edits: Mapping[str, Edits]) -> bool:
        """`self.encoder_kl = self.encoder.kl` at the end of a forward pass, for what reads `model.encoder.kl`."""
        wholes: dict[tuple[str, str, str], str] = {}
        for file in self.inputs:
            for node in every(file.source.module, cst.Attribute):
                looked = self.script.looked_at.get(id(node.attr.value))
                if looked is None or looked.cls != self.cls or looked.name not in self.own or looked.part == ("", ""):
                    continue
                whole: Expr = node.value
                for _ in looked.part[1].split("."):
                    assert isinstance(whole, cst.Attribute)
                    whole = whole.value
                name = f"{looked.part[1]}.{looked.name}".replace(".", "_")
                edits[file.scope].parts[node] = cst.Attribute(whole, cst.Name(name))
                wholes[(*looked.part, looked.name)] = name
        for (cls, part, name), kept in wholes.items():
            facts = self.script.classes[cls]
            forward = facts.method("forward")
            if file_of(cls) not in edits or forward is None or kept in usage.attributes(facts.node or forward):
                raise _Unclear
            last = suites.suite_of(forward.body.body)[-1]
            returned = usage.returns(forward.body)
            if len(returned) != 1 or suites.alone(last) is not returned[0]:
                raise _Unclear
            line = nodes.statement(f"self.{kept} = self.{part}.{name}")
            edits[file_of(cls)].ahead.setdefault(last, []).append(line)
        return bool(wholes)

    # -- the class -----------------------------------------------------------------------------------------------------

    def _methods(self) -> list[Statement]:
        """The method that returns what is kept, and a forward pass that drops it."""
        body = self.forward.body
        closed = next(every(body, (*INNER, cst.Lambda, cst.Yield, cst.AugAssign)), None)
        returned = usage.returns(body)
        last = suites.alone(suites.suite_of(body.body)[-1])
        given = self.forward.params
        if closed is not None or not isinstance(last, cst.Return) or any(one.value is None for one in returned):
            raise _Unclear
        if given.kwonly_params or given.star_kwarg or given.posonly_params or isinstance(given.star_arg, cst.Param):
            raise _Unclear
        made = self.forward.with_changes(
            name=cst.Name(self.method), returns=None, body=nodes.visited(body, _Beside(self.own))
        )
        if any(usage.reads_first(suites.suite_of(made.body.body), own) for own in self.own.values()):
            raise _Unclear  # what is kept is that of an earlier pass
        made = made.with_changes(body=suites.block_of(made.body, _without_aliases(suites.suite_of(made.body.body))))
        names = [nodes.name(one.name.value) for one in given.params[1:]]
        call = nodes.call(nodes.expression(f"self.{self.method}"), *names)
        short = self.forward.with_changes(
            leading_lines=[suites.BLANK], body=suites.block([nodes.statement("return {c}[0]", c=call)])
        )
        return [made, short]

    def _constants(self) -> Iterator[Statement]:
        """What the class says of it beside: that it is None at first, and its type."""
        for one in self.node.body.body:
            small = suites.alone(one) if isinstance(one, cst.SimpleStatementLine) else None
            if isinstance(small, cst.AnnAssign | cst.Assign) and set(usage.stores(small)) & self.own.keys():
                assert isinstance(one, cst.SimpleStatementLine)
                yield one
        if self.init is None:
            return
        found = 0
        for line in every(self.init.body, cst.SimpleStatementLine):
            small = suites.alone(line)
            alone = isinstance(small, cst.AnnAssign) or (isinstance(small, cst.Assign) and len(small.targets) == 1)
            if not alone or not set(usage.attributes_set(line)) & self.own.keys():
                continue
            assert isinstance(small, cst.AnnAssign | cst.Assign)
            if small.value is None or nodes.literal(small.value) is ...:
                raise _Unclear
            found += 1
            yield line
        if sum(name in self.own for name in usage.attributes(self.init)) != found:
            raise _Unclear

    # -- what reads it -------------------------------------------------------------------------------------------------

    def _reads(self, file: Input) -> Iterator[_Read]:
        """The places that read it in a file. Raises _Unclear where one is not of the last call before."""
        module = file.source.module
        own = set(every(self.node, cst.Attribute))
        nodes_of = [one for one in every(module, cst.Attribute) if one.attr.value in self.own and one not in own]
        for path in dict.fromkeys(nodes.dotted(one) for one in nodes_of):
            if path is None:
                raise _Unclear
            found = mentions(module, path)
            if len(found) != sum(nodes.dotted(one) == path for one in nodes_of):
                raise _Unclear
            yield from (self._read(module, one) for one in found)

    def _read(self, module: cst.Module, mention: Mention) -> _Read:
        assert isinstance(mention.node, cst.Attribute)
        looked = self.script.looked_at.get(id(mention.node.attr.value))
        around = mention.function or module
        if looked is None or looked.cls != self.cls or any(isinstance(one, cst.Lambda) for one in mention.around):
            raise _Unclear
        model, between = nodes.dotted(mention.node.value), list[Statement]()
        for level in reversed(mention.levels):
            if isinstance(level.statement, INNER):
                break
            for statement in reversed(level.suite[: level.index]):
                calls = self._calls(statement, looked.module)
                if not calls:
                    between.append(statement)
                    continue
                line = statement if isinstance(statement, cst.SimpleStatementLine) else None
                if len(calls) > 1 or line is None or not self._is_output(line, calls[0]):
                    raise _Unclear
                if any(self._may_call(each, {model, nodes.dotted(calls[0].func)}) for each in between):
                    raise _Unclear
                return _Read(mention.node, calls[0], line, around)
            if self._calls(level.statement, looked.module):
                raise _Unclear  # inside of the statement that reads it, or in another turn of a loop
        raise _Unclear

    def _may_call(self, statement: Statement, models: AbstractSet[str | None]) -> bool:
        """Whether a statement calls a function of the project, or hands on a model by one of its names."""
        for call in usage.calls(statement):
            handed = any(nodes.dotted(arg.value) in models for arg in call.args)
            if handed or (nodes.dotted(call.func) or "").rpartition(".")[2] in self.functions:
                return True
        return False

    def _is_output(self, line: cst.SimpleStatementLine, call: cst.Call) -> bool:
        """Whether a statement is `output = model(x)`, or the call alone."""
        small = suites.alone(line)
        if self.script.passes.get(usage.site_of(call), (None, ""))[1]:
            return False  # a method
        plain = isinstance(small, cst.Expr) or (isinstance(small, cst.Assign) and len(small.targets) == 1)
        return plain and isinstance(small, cst.Assign | cst.Expr) and small.value is call

    def _calls(self, node: cst.CSTNode, module: Place | str) -> list[cst.Call]:
        """The calls of a model and of its methods, of a part of `self` by its path."""
        if isinstance(module, str):
            found = [(call, nodes.dotted(call.func) or "") for call in usage.calls(node)]
            return [call for call, path in found if path == module or path.startswith(f"{module}.")]
        at = self.script.passes
        return [call for call in usage.calls(node) if at.get(usage.site_of(call), (None, ""))[0] == module]


def _put_reads(edits: Edits, reads: Iterable[_Read], method: str, kept: Sequence[str]) -> None:
    """Notes the calls of the new method, and the names of what they return."""
    by_statement: dict[cst.SimpleStatementLine, list[_Read]] = {}
    for one in reads:
        by_statement.setdefault(one.statement, []).append(one)
    for line, group in by_statement.items():
        around = group[0].around
        taken = {one.value for one in every(around, cst.Name)} - set(usage.attributes(around))
        read = {one.node.attr.value for one in group}
        names = {name: usage.unused_name(name, taken) if name in read else "_" for name in kept}
        small, call = suites.alone(line), group[0].call
        assert isinstance(small, cst.Assign | cst.Expr)
        output = small.targets[0].target if isinstance(small, cst.Assign) else nodes.name("_")
        assert isinstance(output, cst.BaseExpression)
        whole = _beside(output, names.values())
        made = call.with_changes(func=cst.Attribute(call.func, cst.Name(method)))
        edits.instead[line] = [line.with_changes(body=[cst.Assign([nodes.target(whole)], made)])]
        edits.parts |= {one.node: nodes.name(names[one.node.attr.value]) for one in group}


def _beside(output: Expr, names: Iterable[str]) -> cst.Tuple:
    """`output, last_loss`; an output of several parts is one of the tuple."""
    first = nodes.parenthesized(output) if isinstance(output, cst.Tuple) else output
    return nodes.tuple_of([first, *map(nodes.name, names)], parentheses=False)


def _without_aliases(body: list[Statement]) -> list[Statement]:
    """`encoder_kl = kl` right before `return z, encoder_kl` goes: that returns what it is."""
    small = suites.alone(body[-2]) if len(body) > 1 else None
    if not isinstance(small, cst.Assign) or not isinstance(small.value, cst.Name) or suites.comments(body[-2]):
        return body
    names = [one.target.value for one in small.targets if isinstance(one.target, cst.Name)]
    if len(names) != len(small.targets):
        return body
    last = body[-1].with_changes(leading_lines=[*body[-2].leading_lines, *body[-1].leading_lines])
    return _without_aliases([*body[:-2], nodes.substituted(last, dict.fromkeys(names, small.value))])


class _Beside(LocalNames):
    """Names in the place of what is kept, returned beside the output."""

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        value = updated_node.value
        assert value is not None
        return updated_node.with_changes(value=_beside(value, self.own.values()))
