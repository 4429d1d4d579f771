"""Graph layers of PyG (torch_geometric), whose edges are given as `edge_index`: sources and targets, two rows."""

from dataclasses import replace

from migrate.layers.layer import Layer, Layout, Part, Sample, Variant, Weight
from migrate.layers.moves import Permute

HOME = "torch_geometric.nn."
_TRANSPOSED = (Permute((1, 0)),)
_EDGES = "torch.tensor([[0, 1, 2, 3, 1, 1, 4], [1, 2, 0, 2, 1, 3, 2]])"  # one self-loop; node 4 has no source
_CACHED = "`cached` says nothing in JAX: the edges are weighted in each call, by XLA."
_AGGREGATIONS: tuple[tuple[object, ...], str] = (
    ("mean", "max", "add", "sum"),
    "only sums, means and maxima of the neighbours are supported",
)


def _dense(name: str, inputs: str, outputs: str, bias: str = "") -> tuple[Weight, ...]:
    """The weights of one of PyG's dense layers inside another layer; its bias where the expression is true."""
    kernel = Weight(f"{name}.weight", f"{name}/kernel", (inputs, outputs), _TRANSPOSED)
    return (kernel, Weight(f"{name}.bias", f"{name}/bias", (outputs,), when=bias)) if bias else (kernel,)


def _in_list(name: str, count: str, weight: Weight) -> Weight:
    """A weight of each element of a list of `count` layers."""
    torch, leaf = f"{name}.{{i}}.{weight.torch}", f"{name}_{{i}}/{weight.leaf}"
    return replace(weight, torch=torch, leaf=leaf, over=count)


def _norm(features: str, affine: str = "", tracked: str = "") -> tuple[Weight, ...]:
    """The weights and the statistics of PyG's batch norm, which there are where the expressions are true."""
    stats = (("running_mean", "mean"), ("running_var", "var"))
    return (
        *(
            Weight(f"module.{one}", leaf, (features,), when=affine)
            for one, leaf in (("weight", "scale"), ("bias",) * 2)
        ),
        *(Weight(f"module.{one}", leaf, (features,), collection="batch_stats", when=tracked) for one, leaf in stats),
    )


_NORMED = "norm is not None"
_COUNTED = "only a cumulative average needs it"


def _attention(
    name: str, own: tuple[Weight, ...], note: str, samples: tuple[Sample, ...], more: str = "", refused: str = ""
) -> Layer:
    """A layer of graph attention. `more`: an argument that others have not, which is `refused` unless it is False."""
    outputs = "out_channels * (heads if concat else 1)"
    return Layer(
        torch=f"{HOME}{name}",
        signature="in_channels, out_channels, heads=1, concat=True, negative_slope=0.2, dropout=0.0, "
        f"add_self_loops=True, edge_dim=None, fill_value='mean', bias=True, {f'{more}=False, ' if more else ''}"
        "residual=False",
        template=f"{name}({{out_channels}}, heads={{heads?1}}, concat={{concat?True}}, "
        "negative_slope={negative_slope?0.2}, dropout={dropout?0.0}, add_self_loops={add_self_loops?True}, "
        "bias={bias?True}, residual={residual?False}, training={dropout:training?False})",
        note=note,
        layout=Layout.FIRST,
        call="x, edge_index",
        trains=True,
        draws=True,
        trains_if="dropout",
        weights=(
            *own,
            *(replace(one, when="residual") for one in _dense("res", "in_channels", outputs)),
            Weight("bias", "bias", (outputs,), when="bias"),
        ),
        refuses={
            "in_channels": ((int,), "nodes of two sorts are not supported"),
            "edge_dim": ((None,), "attention by the features of edges is not supported"),
            **({more: ((False,), refused)} if more else {}),
        },
        snippets=(name,),
        samples=samples,
    )


_LINEAR = (
    Weight("weight", "kernel", ("?", "?"), _TRANSPOSED),
    Weight("bias", "bias", ("?",), when="bias"),
)
_OF_MLP = (
    "dropout={dropout?0.0}, act={act?'relu'}, act_first={act_first?False}, norm={norm?'batch_norm'}, "
    "plain_last={plain_last?True}, bias={bias?True}, training={norm:training_of?False}"
)

LAYERS = (
    Layer(
        torch=f"{HOME}GCNConv",
        signature="in_channels, out_channels, improved=False, cached=False, add_self_loops=None, normalize=True, "
        "bias=True",
        template="GCNConv({out_channels}, improved={improved?False}, add_self_loops={add_self_loops?None}, "
        "normalize={normalize?True}, bias={bias?True})",
        note=f"A self-loop that is there keeps its weight; `improved` needs weights. {_CACHED}",
        layout=Layout.FIRST,
        call="x, edge_index, edge_weight=None",
        weights=(*_dense("lin", "in_channels", "out_channels"), Weight("bias", "bias", ("out_channels",), when="bias")),
        snippets=("GCNConv",),
        samples=(
            Sample("gnn.GCNConv(4, 3)", (5, 4), call=f"x, {_EDGES}"),
            Sample("gnn.GCNConv(4, 3, improved=True, bias=False)", (5, 4), call=f"x, {_EDGES}, w", inputs="w: pos[7]"),
            Sample(
                "gnn.GCNConv(4, 3, cached=True, normalize=False)", (5, 4), call=f"x, {_EDGES}, w", inputs="w: f32[7]"
            ),
            Sample("gnn.GCNConv(4, 3, add_self_loops=False)", (2, 5, 4), call=f"x, {_EDGES}"),
        ),
    ),
    Layer(
        torch=f"{HOME}SGConv",
        signature="in_channels, out_channels, K=1, cached=False, add_self_loops=True, bias=True",
        template="SGConv({out_channels}, K={K?1}, add_self_loops={add_self_loops?True}, bias={bias?True})",
        note="K steps of message passing, then one dense layer.",
        layout=Layout.FIRST,
        call="x, edge_index, edge_weight=None",
        weights=_dense("lin", "in_channels", "out_channels", bias="bias"),
        refuses={"cached": ((False,), "torch keeps what the first input was propagated to, whatever comes then")},
        snippets=("SGConv",),
        samples=(
            Sample("gnn.SGConv(4, 3, K=2)", (5, 4), call=f"x, {_EDGES}"),
            Sample(
                "gnn.SGConv(4, 3, bias=False, add_self_loops=False)",
                (5, 4),
                call=f"x, {_EDGES}, edge_weight=w",
                inputs="w: pos[7]",
            ),
        ),
    ),
    Layer(
        torch=f"{HOME}APPNP",
        signature="K, alpha, dropout=0.0, cached=False, add_self_loops=True, normalize=True",
        template="APPNP({K}, {alpha}, dropout={dropout?0.0}, add_self_loops={add_self_loops?True}, "
        "normalize={normalize?True}, training={dropout:training?False})",
        note=f"The dropout is one of edges, and adds up over the steps. {_CACHED}",
        layout=Layout.FIRST,
        call="x, edge_index, edge_weight=None",
        trains=True,
        draws=True,
        trains_if="dropout",
        snippets=("APPNP",),
        samples=(
            Sample("gnn.APPNP(3, 0.1)", (5, 4), call=f"x, {_EDGES}"),
            Sample("gnn.APPNP(K=2, alpha=0.3, dropout=1.0)", (5, 4), call=f"x, {_EDGES}"),
        ),
    ),
    Layer(
        torch=f"{HOME}SAGEConv",
        signature="in_channels, out_channels, aggr='mean', normalize=False, root_weight=True, project=False, bias=True",
        template="SAGEConv({out_channels}, aggr={aggr?'mean'}, normalize={normalize?False}, "
        "root_weight={root_weight?True}, project={project?False}, bias={bias?True})",
        note="A node without sources gets 0 of them, by the maximum too.",
        layout=Layout.FIRST,
        call="x, edge_index, size=None",
        weights=(
            *(replace(one, when="project") for one in _dense("lin", "in_channels", "in_channels", bias="project")),
            *_dense("lin_l", "in_channels", "out_channels", bias="bias"),
            *(replace(one, when="root_weight") for one in _dense("lin_r", "in_channels", "out_channels")),
        ),
        refuses={"aggr": _AGGREGATIONS},
        snippets=("SAGEConv",),
        samples=(
            Sample("gnn.SAGEConv(4, 3)", (5, 4), call=f"x, {_EDGES}"),
            Sample("gnn.SAGEConv(4, 3, 'max', normalize=True, project=True)", (5, 4), call=f"x, {_EDGES}"),
            Sample("gnn.SAGEConv(4, 3, aggr='sum', root_weight=False, bias=False)", (5, 4), call=f"x, {_EDGES}"),
            Sample("gnn.SAGEConv(4, 3)", (5, 4), call=f"(x, x[:4]), {_EDGES}"),
        ),
    ),
    Layer(
        torch=f"{HOME}GraphConv",
        signature="in_channels, out_channels, aggr='add', bias=True",
        template="GraphConv({out_channels}, aggr={aggr?'add'}, bias={bias?True})",
        note="The bias is that of the neighbours' matrix.",
        layout=Layout.FIRST,
        call="x, edge_index, edge_weight=None, size=None",
        weights=(
            *_dense("lin_rel", "in_channels", "out_channels", bias="bias"),
            *_dense("lin_root", "in_channels", "out_channels"),
        ),
        refuses={"aggr": _AGGREGATIONS},
        snippets=("GraphConv",),
        samples=(
            Sample("gnn.GraphConv(4, 3)", (5, 4), call=f"x, {_EDGES}, w", inputs="w: f32[7]"),
            Sample("gnn.GraphConv(4, 3, aggr='mean', bias=False)", (5, 4), call=f"(x, x[:4]), {_EDGES}"),
        ),
    ),
    Layer(
        torch=f"{HOME}GINConv",
        signature="nn, eps=0.0, train_eps=False",
        template="GINConv({nn}, eps={eps?0.0}, train_eps={train_eps?False})",
        note="Where eps is not trained, it is the number that the constructor was given.",
        layout=Layout.FIRST,
        call="x, edge_index, size=None",
        weights=(Weight("eps", "eps", ("1",), when="train_eps"),),
        unused=(("eps", "where it is not trained, the constructor has the number"),),
        parts=(Part("nn", "nn", "nn"),),
        snippets=("GINConv",),
        samples=(
            Sample("gnn.GINConv(nn.Linear(4, 3), train_eps=True)", (5, 4), call=f"x, {_EDGES}"),
            Sample(
                "gnn.GINConv(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), train_eps=True)",
                (5, 4),
                call=f"x, {_EDGES}",
            ),
        ),
    ),
    Layer(
        torch=f"{HOME}MLP",
        signature="channel_list=None, *, in_channels=None, hidden_channels=None, out_channels=None, num_layers=None, "
        "dropout=0.0, act='relu', act_first=False, act_kwargs=None, norm='batch_norm', norm_kwargs=None, "
        "plain_last=True, bias=True",
        template=f"MLP({{channel_list}}, {_OF_MLP})",
        note="Batch norms between the layers by default, and none behind the last.",
        layout=Layout.FIRST,
        weights=(
            *(_in_list("lins", "num_layers", one) for one in _LINEAR),
            *(_in_list("norms", "num_layers", one) for one in _norm("?", affine=_NORMED, tracked=_NORMED)),
        ),
        unused=(("norms.{i}.module.num_batches_tracked", _COUNTED),),
        variants=(
            Variant(
                "in_channels is not None",
                "MLP([{in_channels}, *[{hidden_channels}] * ({num_layers} - 1), {out_channels}], " + _OF_MLP + ")",
            ),
        ),
        trains=True,
        draws=True,
        trains_if="dropout or norm",
        refuses={
            "act": (("relu", "elu", "tanh", "sigmoid", None), "an activation that is not supported here"),
            "norm": (("batch_norm", None), "only batch norms are supported here"),
            "act_kwargs": ((None,), "arguments of the activation are not supported"),
            "norm_kwargs": ((None,), "arguments of the norm are not supported"),
        },
        snippets=("MLP",),
        samples=(
            Sample("gnn.MLP([4, 6, 5, 3])", (5, 4)),
            Sample("gnn.MLP([4, 6, 3], norm=None, dropout=1.0, act='tanh', bias=False)", (5, 4)),
            Sample(
                "gnn.MLP(in_channels=4, hidden_channels=6, out_channels=3, num_layers=3, act_first=True, "
                "plain_last=False)",
                (5, 4),
            ),
        ),
    ),
    Layer(
        torch=f"{HOME}BatchNorm",
        signature="in_channels, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, "
        "allow_single_element=False, device=None",
        template="BatchNorm(use_running_average=not self.training, momentum={momentum?0.1}, epsilon={eps?1e-5}, "
        "affine={affine?True})",
        note="Over all nodes of all graphs.",
        layout=Layout.FIRST,
        call="x",
        weights=_norm("in_channels", affine="affine"),
        unused=(("module.num_batches_tracked", _COUNTED),),
        trains=True,
        refuses={
            "track_running_stats": ((True,), "only running statistics are supported here"),
            "allow_single_element": ((False,), "how many nodes there are does not change how they are normalised"),
        },
        snippets=("BatchNorm",),
        samples=(
            Sample("gnn.BatchNorm(4)", (5, 4)),
            Sample("gnn.BatchNorm(4, eps=1e-3, momentum=0.2, affine=False)", (5, 4)),
        ),
    ),
    Layer(
        torch=f"{HOME}Linear",
        signature="in_channels, out_channels, bias=True, weight_initializer=None, bias_initializer=None",
        template="nn.Dense({out_channels}, use_bias={bias?True})",
        defaults="torch_init(fan_in={in_channels})",
        note="The kernel is the transpose of torch's weight. Where in_channels is -1, the first input tells them.",
        weights=(
            Weight("weight", "kernel", ("?", "out_channels"), _TRANSPOSED, initializer="kernel_init"),
            Weight("bias", "bias", ("out_channels",), when="bias", initializer="bias_init"),
        ),
        variants=(
            Variant(
                "(-1).__eq__(in_channels) is True",
                "Lazy(lambda inputs: nn.Dense({out_channels}, use_bias={bias?True}, **torch_init(fan_in=inputs)))",
                defaults="",
            ),
        ),
        refuses={
            "weight_initializer": ((None,), "initial weights of PyG's own are not supported"),
            "bias_initializer": ((None,), "initial weights of PyG's own are not supported"),
        },
        snippets=("torch_init", "Lazy"),
        samples=(Sample("gnn.Linear(6, 4)", (3, 6)), Sample("gnn.Linear(4, 3, bias=False)", (2, 3, 4))),
    ),
    Layer(
        torch=f"{HOME}TAGConv",
        signature="in_channels, out_channels, K=3, bias=True, normalize=True",
        template="TAGConv({out_channels}, K={K?3}, bias={bias?True}, normalize={normalize?True})",
        note="No self-loops are added.",
        layout=Layout.FIRST,
        call="x, edge_index, edge_weight=None",
        weights=(
            _in_list("lins", "K + 1", Weight("weight", "kernel", ("in_channels", "out_channels"), _TRANSPOSED)),
            Weight("bias", "bias", ("out_channels",), when="bias"),
        ),
        snippets=("TAGConv",),
        samples=(
            Sample("gnn.TAGConv(4, 3)", (5, 4), call=f"x, {_EDGES}"),
            Sample(
                "gnn.TAGConv(4, 3, K=1, bias=False, normalize=False)",
                (5, 4),
                call=f"x, {_EDGES}, w",
                inputs="w: f32[7]",
            ),
        ),
    ),
    _attention(
        "GATConv",
        (
            *_dense("lin", "in_channels", "heads * out_channels"),
            *(Weight(f"att_{end}", f"att_{end}", ("1", "heads", "out_channels")) for end in ("src", "dst")),
        ),
        "The dropout is one of the attention weights. Self-loops that are there are replaced.",
        (
            Sample("gnn.GATConv(4, 3, heads=2)", (5, 4), call=f"x, {_EDGES}"),
            Sample(
                "gnn.GATConv(4, 3, 2, concat=False, dropout=1.0, residual=True, bias=False)",
                (5, 4),
                call=f"x, {_EDGES}",
            ),
            Sample(
                "gnn.GATConv(4, 3, negative_slope=0.5, add_self_loops=False)", (5, 4), call=f"x, edge_index={_EDGES}"
            ),
        ),
    ),
    _attention(
        "GATv2Conv",
        (
            *(w for end in "lr" for w in _dense(f"lin_{end}", "in_channels", "heads * out_channels", bias="bias")),
            Weight("att", "att", ("1", "heads", "out_channels")),
        ),
        "The biases of both ends are in the scores, and that of the sources in the sum.",
        (
            Sample("gnn.GATv2Conv(4, 3, heads=2)", (5, 4), call=f"x, {_EDGES}"),
            Sample(
                "gnn.GATv2Conv(4, 3, 2, concat=False, dropout=1.0, residual=True, bias=False, add_self_loops=False)",
                (5, 4),
                call=f"x, {_EDGES}",
            ),
        ),
        more="share_weights",
        refused="one matrix for both ends is not supported",
    ),
)
