"""Prints and other effects of what jit traces: they would happen once, while it traces, and be of tracers."""

from __future__ import annotations

import ast
import json

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts
from migrate.known.kinds import UNKNOWN, Host, Items, Kind, Plain, Tensor
from migrate.lowering.scope import Scope
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

_OUTSIDE = (Plain("imported"), Plain("module"), Host("writer"))


def traced_print(scope: Scope, node: cst.Call) -> Value | None:
    """`print("loss", loss)` is `jax.debug.print("loss {}", loss)`: a plain one would print once, while jit traces. None
    where nothing is traced, or no tensor is printed in a way that jax.debug.print does not know."""
    tensors = any(isinstance(scope.expr(part).kind, Tensor) for arg in node.args for part in _parts(arg.value))
    plain = [arg for arg in node.args if arg.keyword is None or arg.keyword.value != "flush"]
    told = any(arg.keyword is not None or arg.star for arg in plain)
    if not tensors and (told or scope.context == "setup" or not _is_traced(scope)):
        return None
    if told:
        raise Unsupported("MIG307", f"`{nodes.code(node)}`: jax.debug.print takes a text and values alone")
    texts: list[str] = []
    values: list[Expr] = []
    for arg in plain:
        text, found = _printed(scope, arg.value)
        texts.append(text)
        values += found
    text = json.dumps(" ".join(texts), ensure_ascii=False)
    return Value(nodes.call("jax.debug.print", cst.SimpleString(text), *values), Plain("None"))


def _printed(scope: Scope, node: Expr) -> tuple[str, list[Expr]]:
    """What is printed as a text with places, and what goes into them."""
    if isinstance(node, cst.ConcatenatedString):
        (left, first), (right, second) = _printed(scope, node.left), _printed(scope, node.right)
        return left + right, first + second
    literal = nodes.literal(node)
    if isinstance(literal, str):
        return ("{}", [node]) if set(literal) & {"{", "}"} else (literal, [])
    if not isinstance(node, cst.FormattedString):
        return "{}", [_shown(scope, node)]
    text, values = "", list[Expr]()
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            specified = "".join(nodes.code(inner) for inner in part.format_spec or ())
            if part.conversion or part.equal or "{" in specified:
                raise Unsupported("MIG307", f"`{nodes.code(node)}` formats a tensor whose values jit does not know")
            text += f"{{:{specified}}}" if specified else "{}"
            values.append(_shown(scope, part.expression))
        else:
            assert isinstance(part, cst.FormattedStringText)
            if set(part.value) & {"{", "}"}:  # jax.debug.print takes a text for one without places where it has them
                raise Unsupported("MIG307", f"`{nodes.code(node)}` prints a tensor among braces")
            text += ast.literal_eval(node.start.lower().replace("f", "") + part.value + node.end)
    return text, values


def _shown(scope: Scope, node: Expr) -> Expr:
    """A value as jax.debug.print takes it, which would make arrays of the numbers in a shape."""
    value = scope.expr(_without_item(node))
    return nodes.call("str", value.node) if isinstance(value.kind, Items) else layouts.first(value)


def refuse_formatted(scope: Scope, node: cst.FormattedString) -> None:
    """Declines a text with the value of a tensor in what jit traces."""
    parts = _parts(node) if _is_traced(scope) else []
    if any(_without_item(part) is not part and isinstance(scope.expr(part).kind, Tensor) for part in parts):
        raise Unsupported("MIG307", f"`{nodes.code(node)}` formats a tensor whose values jit does not know")


def refuse_told(scope: Scope, node: cst.Call) -> None:
    """Declines to tell something outside of a tensor: `wandb.log({"loss": loss})`, `self.writer.add_scalar(...)`."""
    head, _, rest = (nodes.dotted(node.func) or "").partition(".")
    if not scope.under_jit or scope.region is not None or not head:
        return
    if scope.context == "region" and scope.env.lookup(head) is None:
        return  # the ctx of an autograd function, of which what is asked is looked at there
    kind = scope.kind_of_name(head)
    own = head == "self" and scope.context == "method" and scope.own_method_of(f"{head}.{rest}") is None
    known = scope.facts is not None and head in scope.facts.own_names
    outside = kind in _OUTSIDE or (type(kind) is Kind and rest and not known)
    told = [path for arg in node.args for path in usage.paths(arg.value)]
    if (own or outside) and any(isinstance(scope.kind_of_name(path), Tensor) for path in told):
        if scope.facts is not None:
            scope.script.told.setdefault(scope.facts.qualname, set()).add(id(node))
        raise Unsupported("MIG401", f"`{nodes.code(node)}`: jit would call it once, with what has no values yet")


def note_told(scope: Scope, facts: FunctionFacts) -> None:
    """Notes the calls by which a method tells something outside, itself or by a method that does nothing else."""
    cls = facts.qualname.rpartition(".")[0]
    for call in _statements_that_call(facts.node):
        owner, _, name = (nodes.dotted(call.func) or "").rpartition(".")
        own = scope.script.functions.get(f"{cls}.{name}") if owner == "self" else None
        if _tells_outside(scope, facts, call) or (own is not None and _only_tells(scope, own)):
            scope.script.told.setdefault(facts.qualname, set()).add(id(call))


def _only_tells(scope: Scope, facts: FunctionFacts) -> bool:
    """Whether a method does nothing but tell something outside."""
    lines = every(facts.node.body, cst.SimpleStatementLine)
    smalls = [suites.alone(line) for line in lines if not suites.is_docstring(line)]
    calls = [small.value for small in smalls if isinstance(small, cst.Expr)]
    told = all(isinstance(call, cst.Call) and _tells_outside(scope, facts, call) for call in calls)
    return told and len(calls) == len(smalls) > 0


def _statements_that_call(function: cst.FunctionDef) -> list[cst.Call]:
    return [one.value for one in every(function.body, cst.Expr) if isinstance(one.value, cst.Call)]


def _tells_outside(scope: Scope, facts: FunctionFacts, call: cst.Call) -> bool:
    """Whether a method calls one of what is not the script's: of an attribute, or of what its file imports."""
    path = (nodes.dotted(call.func) or "").split(".")
    if len(path) < 2 or (path[0] in facts.own_names and path[0] != "self"):
        return False
    kinds = scope.script.attributes.get(facts.qualname.rpartition(".")[0], {})
    of_self = path[0] == "self"
    kind = kinds.get(".".join(path[:2]), UNKNOWN) if of_self and len(path) > 2 else scope.kind_of_name(path[0])
    return kind in _OUTSIDE or (type(kind) is Kind and (len(path) > 2 or not of_self))


def _is_traced(scope: Scope) -> bool:
    """Whether jit traces what is lowered: not a method of a module that no forward pass and no loss calls."""
    own = scope.script.classes.get(scope.cls) if scope.context == "forward" else None
    alone = own is not None and scope.scope.rpartition(".")[2] not in own.reached
    return scope.under_jit and not (alone and scope.facts is not None and not scope.facts.traced)


def _parts(node: Expr) -> list[Expr]:
    """What is put into a text; of anything else itself."""
    if isinstance(node, cst.ConcatenatedString):
        return [*_parts(node.left), *_parts(node.right)]
    if not isinstance(node, cst.FormattedString):
        return [node]
    return [part.expression for part in node.parts if isinstance(part, cst.FormattedStringExpression)]


def _without_item(node: Expr) -> Expr:
    called = node.func if isinstance(node, cst.Call) and not node.args else None
    return called.value if isinstance(called, cst.Attribute) and called.attr.value == "item" else node
