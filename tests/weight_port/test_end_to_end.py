"""A torch network and the same network in Flax, written by hand: ported weights give equal outputs."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate import manifest as manifests
from migrate.layers.moves import Flip, Permute
from migrate.manifest import Leaf, Manifest, ModelWeights, Unused
from weight_port import port_state_dict, port_weights, store, unport_tree


class TorchNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.bn = torch.nn.BatchNorm2d(4)
        self.up = torch.nn.ConvTranspose2d(4, 6, 2, stride=2)
        self.layer = torch.nn.Sequential(torch.nn.Linear(6 * 8 * 8, 5), torch.nn.ReLU(), torch.nn.Linear(5, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(torch.relu(self.bn(self.conv1(x))))
        return self.layer(x.flatten(1))


class FlaxNet(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = jnp.moveaxis(x, 1, -1)
        x = nn.Conv(4, (3, 3), padding=1, param_dtype=x.dtype, name="conv1")(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True, epsilon=1e-5, name="bn")(x))
        x = nn.ConvTranspose(6, (2, 2), strides=(2, 2), padding="VALID", name="up")(x)
        x = jnp.moveaxis(x, -1, 1).reshape(len(x), -1)  # torch flattens with the channels first
        x = nn.relu(nn.Dense(5, name="layer_0")(x))
        return nn.Dense(5, name="layer_2")(x)


MODEL = ModelWeights(
    "TorchNet",
    (
        Leaf("params/conv1/kernel", "conv1.weight", (Permute((2, 3, 1, 0)),), (3, 3, 1, 4)),
        Leaf("params/conv1/bias", "conv1.bias", (), (4,)),
        Leaf("params/bn/scale", "bn.weight", (), (4,)),
        Leaf("params/bn/bias", "bn.bias", (), (4,)),
        Leaf("batch_stats/bn/mean", "bn.running_mean", (), (4,)),
        Leaf("batch_stats/bn/var", "bn.running_var", (), (4,)),
        Leaf("params/up/kernel", "up.weight", (Permute((2, 3, 0, 1)), Flip((0, 1))), (2, 2, 4, 6)),
        Leaf("params/up/bias", "up.bias", (), (6,)),
        Leaf("params/layer_{0}/kernel", "layer.{0}.weight", (Permute((1, 0)),), (None, None)),
        Leaf("params/layer_{0}/bias", "layer.{0}.bias", (), (None,)),
    ),
    (Unused("bn.num_batches_tracked", "Flax counts no batches"),),
)


@pytest.fixture
def net() -> TorchNet:
    torch.manual_seed(0)
    net = TorchNet().double()
    for _ in range(3):  # running statistics that are not the initial zeros and ones
        net(torch.randn(8, 1, 4, 4, dtype=torch.float64))
    return net.eval()


def outputs(net: TorchNet, variables: dict) -> tuple[np.ndarray, np.ndarray]:
    example = torch.randn(3, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with jax.enable_x64(True):
        ours = np.asarray(FlaxNet().apply(variables, jnp.asarray(example.numpy())))
    assert ours.dtype == np.float64
    return net(example).detach().numpy(), ours


def state_of(net: TorchNet) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


# Sums of at most 384 products of numbers around one: a few hundred roundings of 2**-53 each
CLOSE = {"rtol": 0, "atol": 1e-13}


def test_equal_outputs_in_memory(net):
    theirs, ours = outputs(net, port_state_dict(state_of(net), MODEL))
    np.testing.assert_allclose(ours, theirs, **CLOSE)


@pytest.mark.parametrize("suffix", store.FLAX_FORMATS)
def test_equal_outputs_from_a_file(net, tmp_path, suffix):
    torch.save({"model": net.state_dict(), "epoch": 1}, tmp_path / "net.pt")
    manifests.write(Manifest("train.py", "linen", (MODEL,)), tmp_path / "weights.json")
    port_weights(tmp_path / "net.pt", tmp_path / "weights.json", tmp_path / f"net{suffix}")
    known, read = store.read(tmp_path / f"net{suffix}")
    variables: dict = {}
    for name in known:
        *parents, last = name.split("/")
        node = variables
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = read(name)
    theirs, ours = outputs(net, variables)
    np.testing.assert_allclose(ours, theirs, **CLOSE)


def test_the_leaves_are_those_that_flax_makes(net):
    made = jax.eval_shape(FlaxNet().init, jax.random.key(0), jnp.zeros((1, 1, 4, 4)))
    ported = port_state_dict(state_of(net), MODEL)
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(np.shape, ported)


def test_the_way_back_is_exact(net):
    state = state_of(net)
    back = unport_tree(port_state_dict(state, MODEL), MODEL)
    assert state.keys() - back.keys() == {"bn.num_batches_tracked"}
    assert all(back[name].tobytes() == state[name].tobytes() for name in back)


@pytest.mark.parametrize(
    ("flax", "moves"),
    [("params/layer_{0}/kernel", (Permute((0, 1)),)), ("params/up/kernel", (Permute((2, 3, 0, 1)),))],
    ids=["a square kernel not transposed", "a transposed convolution not flipped"],
)
def test_a_wrong_move_that_fits_is_noticed_here(net, flax, moves):
    """Both pass every check of shapes; only outputs tell (for the first, of the square second layer)."""
    leaves = tuple(
        Leaf(leaf.flax, leaf.torch, moves if leaf.flax == flax else leaf.moves, leaf.shape) for leaf in MODEL.leaves
    )
    if flax.endswith("layer_{0}/kernel"):
        first = Leaf("params/layer_0/kernel", "layer.0.weight", (Permute((1, 0)),), (384, 5))
        second = Leaf("params/layer_2/kernel", "layer.2.weight", moves, (5, 5))
        leaves = (*tuple(leaf for leaf in leaves if leaf.flax != flax), first, second)
    wrong = ModelWeights("TorchNet", leaves, MODEL.unused)
    theirs, ours = outputs(net, port_state_dict(state_of(net), wrong))
    assert np.abs(ours - theirs).max() > 1e-2
