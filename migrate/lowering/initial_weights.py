"""Initial weights that a constructor asks for one by one: `nn.init.zeros_(self.fc.bias)`, `self.fc.bias.data.zero_()`.

What is asked for is noted under the path of the weight ("self.fc.bias", "self.net.2.weight"), and the constructor of
the layer takes it in the next round.
"""

from __future__ import annotations

import libcst as cst

from migrate import nodes, suites, usage
from migrate.constructed import ClassNode, ListNode
from migrate.diagnostics import Unsupported
from migrate.kinds import Kind, Module, SelfModule
from migrate.lowering.elements import children_of, named_child
from migrate.lowering.initializers import IN_PLACE, Initializers, initializer_of
from migrate.nodes import Expr, Statement
from migrate.script import ClassFacts

ANYWHERE = {"nn", "jnp", "jax", "key", "shape", "dtype"}  # what an initialiser may name in any class


class InitialWeights(Initializers):
    """Initialisers for single weights."""

    def initial_statement(self, node: cst.Call) -> list[Statement] | None:
        """A statement of a constructor that fills a weight; None where it does something else."""
        name = self.torch_name(node.func) or ""
        if name.startswith("torch.nn.init.") and node.args:
            return self.ask(name.rpartition(".")[2], node, node.args[0].value)
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value not in (*IN_PLACE, "copy_"):
            return None
        method, target = node.func.attr.value, node.func.value
        if not isinstance(target, cst.Attribute):
            return None
        if method == "copy_":
            return self.copied(node, _without_data(target))
        return self.ask({"zero_": "zeros_", "fill_": "constant_"}.get(method, method), node, target)

    def ask(self, name: str, call: cst.Call, target: Expr) -> list[Statement]:
        """Notes the initialiser of a weight under its path."""
        weight = _without_data(target)
        facts, path = self.weight_path(weight)
        made = initializer_of(self, name, call, target)
        self.note_asked(facts, path, made, call)
        return []

    def note_asked(self, facts: ClassFacts, path: str, made: Expr, node: cst.CSTNode) -> None:
        """The same where the class of the weight knows all that the initialiser names."""
        existing = [nodes.code(test) for test in self.conditions if not _exists(test)]
        if existing:
            raise Unsupported("MIG204", f"`{nodes.code(node)}` depends on `{existing[-1]}`")
        if facts.name != self.cls and set(usage.loads(made)) - ANYWHERE:
            raise Unsupported("MIG204", f"`{nodes.code(node)}`: the class of the weight does not have these names")
        self.note_found(facts, path, made, node)

    def note_found(self, facts: ClassFacts, path: str, made: Expr, node: cst.CSTNode) -> None:
        """The constructor of the layer takes the initialiser in the next round."""
        if path not in facts.askable:
            raise Unsupported("MIG204", f"`{nodes.code(node)}`: the layer of this weight is not made at one place")
        facts.found_asked[path] = _in_torch_order(made) if facts.askable[path] else made

    def copied(self, node: cst.Call, target: Expr) -> list[Statement]:
        """`self.x.data.copy_(value)`: a constant is bound again, a parameter starts from the value."""
        return self.starts_from(target, node.args[0].value, node)

    def weight_data(self, target: Expr, value: Expr) -> list[Statement]:
        """`self.x.data = value`."""
        return self.starts_from(target, value, target)

    def starts_from(self, target: Expr, value: Expr, node: cst.CSTNode) -> list[Statement]:
        """A constant is bound again, a parameter starts from the value."""
        path = nodes.dotted(target) or ""
        facts = self.script.classes[self.cls]
        name = path.removeprefix("self.")
        lowered = self.array(value)
        if name in facts.buffers and not self.conditions:
            return [nodes.statement(f"self.{name} = {{v}}", v=lowered.node)]
        raise Unsupported("MIG204", f"`{nodes.code(node)}`")

    def weight_path(self, node: Expr) -> tuple[ClassFacts, str]:
        """The class whose constructor makes the layer of a weight, and the path of the weight in it."""
        facts = self.script.classes[self.cls]
        if not isinstance(node, cst.Attribute):
            raise Unsupported("MIG204", f"{nodes.code(node)} is not known to be a weight")
        if isinstance(self.expr(node.value).kind, SelfModule):
            return facts, f"self.{node.attr.value}"
        owner, path, kind = self.module_path(node.value)
        if not isinstance(kind, Module):
            raise Unsupported("MIG204", f"{nodes.code(node)} is not known to be a weight")
        return owner, f"{path}.{node.attr.value}"

    def module_path(self, node: Expr) -> tuple[ClassFacts, str, Kind]:
        """The same of a module: the class, the path in it, and what it is."""
        facts = self.script.classes[self.cls]
        if isinstance(node, cst.Name) and node.value in self.walked:
            return self.inside_class(facts, "", self.kind_of_name(node.value), node)
        if isinstance(node, cst.Attribute):
            if isinstance(self.expr(node.value).kind, SelfModule):
                return self.inside_class(facts, f"self.{node.attr.value}", self.expr(node).kind, node)
            owner, path, _ = self.module_path(node.value)
            found = owner.seen.get(node.attr.value, owner.attributes.get(node.attr.value))
            if path == "self" and found is not None:
                return self.inside_class(owner, f"self.{node.attr.value}", found, node)
        if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            owner, path, kind = self.module_path(node.value)
            key = nodes.literal(node.slice[0].slice.value)
            option = kind.options[0] if isinstance(kind, Module) and len(kind.options) == 1 else None
            if isinstance(option, ListNode) and not option.dynamic and isinstance(key, int | str):
                number = key % len(children_of(option)) if isinstance(key, int) else key
                return self.inside_class(owner, f"{path}.{number}", named_child(Module((option,)), number), node)
        raise Unsupported("MIG204", f"the weights of {nodes.code(node)} are changed after it was made")

    def inside_class(self, facts: ClassFacts, path: str, kind: Kind, node: Expr) -> tuple[ClassFacts, str, Kind]:
        """A module of the user's: its weights are made by its own class. That must make them for this one alone."""
        if isinstance(kind, Module) and len(kind.options) == 1 and isinstance(kind.options[0], ClassNode):
            cls = kind.options[0].cls
            if self.script.times_made(cls) > 1:
                raise Unsupported("MIG204", f"the weights of {nodes.code(node)}, one of several modules of its class")
            return self.script.classes[cls], "self", kind
        if not path:
            raise Unsupported("MIG204", f"the weights of {nodes.code(node)} are changed after it was made")
        return facts, path, kind

    def modules_loop(self, node: cst.For) -> list[Statement] | None:
        """`for m in self.modules(): if isinstance(m, nn.Linear): ...`: a function given to apply, written in place."""
        called = nodes.dotted(node.iter.func) if isinstance(node.iter, cst.Call) else None
        if self.context == "setup" and called in ("self.parameters", "self.named_parameters"):
            return self.parameters_loop(node)
        if self.context != "setup" or not isinstance(node.target, cst.Name):
            return None
        path = nodes.dotted(node.iter) or ""
        if path.startswith("self.") and isinstance(self.expr(node.iter).kind, Module):
            self.walked[node.target.value] = path
        if called != "self.modules":
            return None
        if self.conditions:
            raise Unsupported("MIG204", f"initial weights depend on `{nodes.code(self.conditions[-1])}`")
        body = cst.IndentedBlock(suites.suite_of(node.body.body))
        function = cst.FunctionDef(cst.Name("initialize"), cst.Parameters([cst.Param(node.target)]), body)
        self.initialize_tree(self.script.classes[self.cls], function)
        return []


def _without_data(node: Expr) -> Expr:
    return node.value if isinstance(node, cst.Attribute) and node.attr.value == "data" else node


def _exists(test: Expr) -> bool:
    """Whether a condition asks only whether there is a weight: `self.fc.bias is not None`."""
    if isinstance(test, cst.Comparison) and isinstance(test.comparisons[0].operator, cst.IsNot):
        return nodes.is_literal(test.comparisons[0].comparator, None) and isinstance(test.left, cst.Attribute)
    return False


def _in_torch_order(made: Expr) -> Expr:
    """An initialiser that goes by fans, for a weight that keeps torch's order of axes: outputs first."""
    name = (nodes.dotted(made.func) or "") if isinstance(made, cst.Call) else ""
    own: list[cst.Arg] = []
    if name in ("nn.initializers.xavier_uniform", "nn.initializers.variance_scaling"):
        own = nodes.arguments([], {"in_axis": cst.Integer("1"), "out_axis": cst.Integer("0")})
    if name == "nn.initializers.orthogonal":
        own = nodes.arguments([], {"column_axis": cst.Integer("0")})
    return made.with_changes(args=[*made.args, *own]) if isinstance(made, cst.Call) else made
