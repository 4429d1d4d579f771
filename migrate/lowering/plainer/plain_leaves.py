"""Tensors that gradients are taken of without a model, in plain terms: how they are made and changed."""

from __future__ import annotations

import libcst as cst

from migrate.known.kinds import Leaf, Tensor, is_batch
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.updates.gradient_flow import GradientFlow, asks_for_gradients
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr

_PARAMETER = "torch.nn.Parameter"


class PlainLeaves(GradientFlow):
    """What is said of such tensors, said as `x.requires_grad_()`, `w -= d` and `w.copy_(v)`."""

    def plain_change(self, small: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
        """`w.data -= d`, `w.data = w.data - d`, `w.data.sub_(d)` and `w.data = v` change a tensor that gradients are
        taken of; `x.requires_grad_()` and `x.requires_grad = True` say of one made before that they are, and
        `w = nn.Parameter(v)` of one that it makes."""
        parameters = self.own_parameters(small)
        if parameters is not None:
            return parameters
        asked = self.asked_for_gradients(small)
        if asked is not None:
            return cst.Assign([cst.AssignTarget(asked)], cst.Call(cst.Attribute(asked, cst.Name("requires_grad_"))))
        if isinstance(small, cst.AugAssign):
            leaf = self.leaf_of_data(small.target)
            return small if leaf is None else small.with_changes(target=leaf)
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            leaf = self.leaf_of_data(small.targets[0].target)
            if leaf is None:
                return small
            value = small.value
            if isinstance(value, cst.BinaryOperation) and self.leaf_of_data(value.left) is not None:
                operator = nodes.in_place(value.operator)
                if operator is not None and nodes.code(value.left) == nodes.code(small.targets[0].target):
                    return cst.AugAssign(leaf, operator, value.right)
            return cst.Expr(nodes.method(leaf, "copy_", value))
        call = small.value if isinstance(small, cst.Expr) else None
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("_"):
            leaf = self.leaf_of_data(call.func.value)
            if leaf is not None:
                return cst.Expr(call.with_changes(func=call.func.with_changes(value=leaf)))
        return small

    def own_parameters(self, small: cst.BaseSmallStatement) -> cst.BaseSmallStatement | None:
        """`w = nn.Parameter(v)` outside of modules, or `self.w = nn.Parameter(v)`, as `w = v.requires_grad_()` or as
        `w = v`, and where a function returns it; None for other statements."""
        if self.context not in HOST_CONTEXTS or self.under_jit or not isinstance(small, cst.Assign | cst.Return):
            return None
        given = nodes.elements(small.value) if isinstance(small.value, cst.Tuple) else [small.value]
        if not any(isinstance(one, cst.Call) and self.torch_name(one.func) == _PARAMETER for one in given):
            return None
        targets = [one.target for one in small.targets] if isinstance(small, cst.Assign) else []
        bound = [one for target in targets for one in _parts(target)]
        plain = all(isinstance(one, cst.Name) or _is_of_self(one) for one in bound)
        if small.value is None or len(targets) > 1 or not plain:
            return None
        shared = self.read_besides(small) - {one.value for one in bound if isinstance(one, cst.Name)}
        made = [self.own_parameter(one, shared) for one in given if one is not None]
        if made == given:
            return None
        if not isinstance(small.value, cst.Tuple):
            return small.with_changes(value=made[0])
        row = [
            each if new is old else each.with_changes(value=new)  # *more stays as it is
            for each, old, new in zip(small.value.elements, given, made, strict=True)
        ]
        return small.with_changes(value=small.value.with_changes(elements=row))

    def read_besides(self, small: cst.BaseSmallStatement) -> set[str]:
        """The names that the block at hand reads after a statement of it, or may."""
        block = self.blocks[-1]
        lines = {i: one.body for i, one in enumerate(block.statements) if isinstance(one, cst.SimpleStatementLine)}
        own = next((i for i, line in lines.items() if small in line), -1)  # -1: a part of one of them
        others = [
            one
            for number, one in enumerate(block.statements)
            if number != own and (number > own or block.cyclic or isinstance(one, cst.FunctionDef | cst.ClassDef))
        ]
        return {name for one in others for name in usage.loads(one)}

    def own_parameter(self, node: Expr, shared: set[str]) -> Expr:
        """The tensor that a call makes a parameter of, as one that gradients are taken of; other expressions as they
        are. The parameter shares the memory of the tensor, so that may be none that is read once more."""
        if not isinstance(node, cst.Call) or self.torch_name(node.func) != _PARAMETER:
            return node
        names = argument_names(node.args, ("data", "requires_grad"))
        given = dict(zip(names, (arg.value for arg in node.args), strict=True))
        value, trained = given.get("data"), given.get("requires_grad")
        if value is None or isinstance(value, cst.Attribute | cst.Subscript):
            return node
        if isinstance(value, cst.Name) and value.value in shared:
            return node
        if trained is not None and nodes.is_literal(trained, False):
            return value
        return nodes.method(value, "requires_grad_") if trained is None or nodes.is_literal(trained, True) else node

    def asked_for_gradients(self, small: cst.BaseSmallStatement) -> cst.Name | None:
        """The name of a tensor that gradients are taken of from this statement on; None for other statements."""
        node: Expr | None = None
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and nodes.is_literal(small.value, True):
            node = small.targets[0].target
        elif isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) and asks_for_gradients(small.value):
            node = small.value.func
        if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name) or self.under_jit:
            return None
        kind = self.kind_of(node.value)
        plain = (isinstance(kind, Tensor) and not isinstance(kind, Leaf)) or is_batch(kind)
        plain = plain and node.value.value in self.env.kinds
        return node.value if plain and node.attr.value in ("requires_grad", "requires_grad_") else None

    def leaf_of_data(self, node: Expr) -> cst.Name | None:
        """The name of a leaf in `w.data`; None for other expressions."""
        if not isinstance(node, cst.Attribute) or node.attr.value != "data" or not isinstance(node.value, cst.Name):
            return None
        return node.value if isinstance(self.kind_of(node.value), Leaf) else None


def _is_of_self(target: Expr) -> bool:
    return isinstance(target, cst.Attribute) and nodes.dotted(target.value) == "self"


def _parts(target: Expr) -> list[Expr]:
    return nodes.elements(target) if isinstance(target, cst.Tuple | cst.List) else [target]
