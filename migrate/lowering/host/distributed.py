"""Scripts for several devices as one program: what jit computes of a batch that is split over a mesh is over the whole
batch already, so that there is one rank, nothing is reduced by hand, and samplers leave nothing out."""

from __future__ import annotations

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Device, Number, Plain
from migrate.lowering.host.data_loading import DataLoading
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

_NOTHING = Value(nodes.name("None"), Device())  # a statement that disappears
_ENVIRONMENT = {"RANK": "jax.process_index()", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}


class Distributed(DataLoading):
    """torch.distributed, in terms of one program over a mesh."""

    def torch_distributed_init_process_group(self, node: cst.Call) -> Value:
        """Joins the hosts of a run, where a launcher says that there are several."""
        for arg in node.args:
            self.expr(arg.value)
        self.script.distributed = True
        self.unit.report(Unsupported("MIG503", "all devices are one program, whose world size is 1"), node)
        self.unit.use_snippet("join_hosts")
        return Value(nodes.call("join_hosts"), Plain("None"))

    def torch_distributed_destroy_process_group(self, node: cst.Call) -> Value:
        """JAX leaves at the end of the program."""
        return _NOTHING

    def torch_distributed_barrier(self, node: cst.Call) -> Value:
        """Hosts wait for each other in every step."""
        return _NOTHING

    def torch_distributed_get_rank(self, node: cst.Call) -> Value:
        """The host: what rank 0 does alone is done once."""
        return Value(nodes.expression("jax.process_index()"), Number())

    def torch_distributed_get_world_size(self, node: cst.Call) -> Value:
        """One program."""
        return Value(nodes.expression("1"), Number())

    def torch_distributed_is_initialized(self, node: cst.Call) -> Value:
        """Whether several hosts have been joined."""
        return Value(nodes.expression("jax.distributed.is_initialized()"), Number())

    def torch_distributed_is_available(self, node: cst.Call) -> Value:
        """Always."""
        return Value(nodes.expression("True"), Number())

    def torch_distributed_all_reduce(self, node: cst.Call) -> Value:
        """What was computed of a split batch is of the whole batch already."""
        asynchronous = [arg for arg in node.args if arg.keyword is not None and arg.keyword.value == "async_op"]
        if asynchronous and not nodes.is_literal(asynchronous[0].value, False):
            raise Unsupported("MIG302", "all_reduce(async_op=True)")
        self.expr(node.args[0].value)
        return _NOTHING

    torch_distributed_reduce = torch_distributed_all_reduce
    torch_distributed_broadcast = torch_distributed_all_reduce

    def spawned(self, node: cst.Call) -> cst.Call:
        """`mp.spawn(f, args=(a, b), nprocs=n)` is `f(0, a, b)`; where the number of processes is passed on, it is 1."""
        given = dict(zip(("fn", "args", "nprocs"), node.args, strict=False))
        given |= {arg.keyword.value: arg for arg in node.args if arg.keyword is not None}
        passed = given["args"].value if "args" in given else cst.Tuple([])
        if "fn" not in given or not isinstance(passed, cst.Tuple):
            raise Unsupported("MIG302", "spawn with arguments that are not written out as a tuple")
        self.script.distributed = True
        count = nodes.code(given["nprocs"].value) if "nprocs" in given else ""
        arguments: list[Expr] = [element.value for element in passed.elements]
        one: list[Expr] = [nodes.expression("1") if nodes.code(node) == count else node for node in arguments]
        return nodes.call(nodes.code(given["fn"].value), nodes.expression("0"), *one)

    def whole_sampler(self, node: cst.Call) -> cst.Call:
        """A `DistributedSampler` that leaves out nothing: it takes no process group."""
        kept = [
            arg
            for number, arg in enumerate(node.args)
            if (arg.keyword is None and number not in (1, 2))
            or (arg.keyword is not None and arg.keyword.value not in ("num_replicas", "rank"))
        ]
        position = next((i for i, arg in enumerate(kept) if arg.keyword is not None), len(kept))
        whole = nodes.arguments([], {"num_replicas": nodes.expression("1"), "rank": nodes.expression("0")})
        tail = [arg if arg.keyword else arg.with_changes(keyword=None) for arg in kept[position:]]
        made = [*kept[:position], *whole, *tail]
        return node.with_changes(args=[arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in made])

    def launcher_variable(self, node: Expr) -> Expr | None:
        """What `int(os.environ["RANK"])` is in one program; None for other expressions."""
        if not self.script.distributed or not isinstance(node, cst.Subscript):
            return None
        name = nodes.looked_up(node)
        if nodes.dotted(node.value) != "os.environ" or name not in _ENVIRONMENT:
            return None
        return nodes.expression(_ENVIRONMENT[str(name)])
