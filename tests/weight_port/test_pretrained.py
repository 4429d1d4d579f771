"""`from_pretrained`: torch modules into hand-written Flax modules with names of their own, and what is ambiguous."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from jax import tree_util
from safetensors.torch import save_file
from torch import nn as tnn

from migrate import manifest as manifests
from weight_port import PortError, from_pretrained, match_module, open_checkpoint, port_weights

torch.manual_seed(0)


def saved(module, path):
    for buffer in module.buffers():
        if buffer.is_floating_point():
            buffer.data.uniform_(0.5, 1.5)
    torch.save(module.state_dict(), path / "m.pt")
    return path / "m.pt"


# --- torch: a small transformer and a small image classifier ----------------------------------------------------------


class TorchBlock(tnn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.ln_1 = tnn.LayerNorm(width)
        self.q_proj, self.k_proj, self.v_proj = (tnn.Linear(width, width) for _ in range(3))
        self.o_proj = tnn.Linear(width, width)
        self.ln_2 = tnn.LayerNorm(width)
        self.fc1, self.fc2 = tnn.Linear(width, 4 * width), tnn.Linear(4 * width, width)

    def forward(self, x):
        h = self.ln_1(x)
        q, k, v = (proj(h).unflatten(-1, (2, -1)).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj))
        x = x + self.o_proj(tnn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.fc2(torch.relu(self.fc1(self.ln_2(x))))


class TorchText(tnn.Module):
    def __init__(self):
        super().__init__()
        self.wte = tnn.Embedding(11, 16)
        self.pos = tnn.Parameter(torch.randn(1, 5, 16))
        self.h = tnn.ModuleList([TorchBlock() for _ in range(3)])
        self.lm_head = tnn.Linear(16, 11, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, x):
        x = self.wte(x) + self.pos
        for block in self.h:
            x = block(x)
        return self.lm_head(x)


class Block(nn.Module):
    """Names of its own, per-head kernels."""

    width: int = 16

    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm(epsilon=1e-5, name="ln1")(x)
        q, k, v = (nn.DenseGeneral((2, self.width // 2), name=name)(h) for name in ("query", "key", "value"))
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(self.width // 2))
        out = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        x = x + nn.DenseGeneral(self.width, axis=(-2, -1), name="out")(out)
        h = nn.LayerNorm(epsilon=1e-5, name="ln2")(x)
        return x + nn.Dense(self.width)(nn.relu(nn.Dense(4 * self.width)(h)))


class Text(nn.Module):
    @nn.compact
    def __call__(self, x):
        embed = nn.Embed(11, 16, name="tokens")
        x = embed(x) + self.param("positions", nn.initializers.zeros, (1, 5, 16))
        for i in range(3):
            x = Block(name=f"block_{i}")(x)
        return embed.attend(x)


class TorchImage(tnn.Module):
    def __init__(self):
        super().__init__()
        self.features = tnn.Sequential(tnn.Conv2d(3, 8, 3), tnn.BatchNorm2d(8), tnn.ReLU(), tnn.Conv2d(8, 6, 3))
        self.up = tnn.ConvTranspose2d(6, 5, 2, stride=2)
        self.head = tnn.Linear(5 * 8 * 8, 10)

    def forward(self, x):
        return self.head(self.up(self.features(x)).flatten(1))


class Image(nn.Module):
    transposed: bool = False

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (3, 3), padding="VALID")(x)
        x = nn.relu(nn.BatchNorm(use_running_average=True, epsilon=1e-5)(x))
        x = nn.Conv(6, (3, 3), padding="VALID")(x)
        x = nn.ConvTranspose(5, (2, 2), (2, 2), padding="VALID", transpose_kernel=self.transposed)(x)
        return nn.Dense(10)(x.reshape(len(x), -1))


class ImageNNX(nnx.Module):
    def __init__(self, rngs):
        self.stem, self.norm = nnx.Conv(3, 8, (3, 3), padding="VALID", rngs=rngs), nnx.BatchNorm(8, rngs=rngs)
        self.norm.epsilon = 1e-5
        self.second = nnx.Conv(8, 6, (3, 3), padding="VALID", rngs=rngs)
        self.bigger = nnx.ConvTranspose(6, 5, (2, 2), (2, 2), padding="VALID", rngs=rngs)
        self.classify = nnx.Linear(320, 10, rngs=rngs)

    def __call__(self, x):
        x = self.bigger(self.second(nnx.relu(self.norm(self.stem(x), use_running_average=True))))
        return self.classify(x.reshape(len(x), -1))


@pytest.fixture
def text(tmp_path):
    model = TorchText()
    tokens = torch.randint(0, 11, (2, 5))
    return model, saved(model, tmp_path), tokens, jnp.asarray(tokens.numpy())


@pytest.fixture
def image(tmp_path):
    model = TorchImage().eval()
    pixels = torch.randn(2, 3, 8, 8)
    return model, saved(model, tmp_path), pixels, jnp.asarray(pixels.permute(0, 2, 3, 1).numpy())


def close(one, other):
    np.testing.assert_allclose(np.asarray(one), other.detach().numpy(), atol=2e-5)  # float32, 16 to 320 terms a sum


# --- what is found ----------------------------------------------------------------------------------------------------


def test_a_transformer_with_names_of_its_own(text):
    model, path, tokens, x = text
    variables = from_pretrained(Text(), path, example_inputs=(x,), layers={"*": "Linear"})
    close(Text().apply(variables, x), model(tokens))


def test_names_are_needed_only_where_nothing_else_decides(text):
    """ln1 and ln_1 are one name, query and q_proj, too; positions fits nothing but pos; out only o_proj."""
    model, path, _, x = text
    found = match_module(Text(), path, example_inputs=(x,), layers=model).models[0]
    pairs = {leaf.flax: leaf.torch for leaf in found.leaves}
    assert pairs["params/block_2/query/kernel"] == "h.2.q_proj.weight"
    assert pairs["params/block_1/Dense_0/kernel"] == "h.1.fc2.weight"  # constructed first, called last
    assert [(tie.torch, tie.same_as) for tie in found.ties] == [("lm_head.weight", "wte.weight")]
    variables = from_pretrained(Text(), path, example_inputs=(x,), layers=model, dtype=jnp.bfloat16)
    assert {leaf.dtype.name for leaf in tree_util.tree_leaves(variables)} == {"bfloat16"}


@pytest.mark.parametrize("transposed", [False, True])
def test_an_image_classifier(image, transposed):
    model, path, pixels, x = image
    flax = Image(transposed)
    variables = from_pretrained(flax, path, example_inputs=(x,), layers={"head": "FlattenLinear"})
    close(flax.apply(variables, x), model(pixels))


def test_nnx(image):
    model, path, pixels, x = image
    flax = ImageNNX(nnx.Rngs(0))
    same = from_pretrained(flax, path, example_inputs=(x,), layers={"head": "FlattenLinear"})
    assert same is flax
    close(flax(x), model(pixels))


def test_attention_that_is_packed(tmp_path):
    model = tnn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        model.in_proj_bias.normal_()
    path = saved(model, tmp_path)
    x = np.random.default_rng(0).normal(size=(2, 4, 8)).astype(np.float32)
    flax = nn.MultiHeadDotProductAttention(2)
    variables = from_pretrained(flax, path, example_inputs=(x,), layers={"out_proj": "Linear"})
    close(flax.apply(variables, x), model(*[torch.from_numpy(x)] * 3)[0])


def test_the_manifest_ports_the_same_on_the_command_line(image, tmp_path):
    _, path, _, x = image
    made = match_module(Image(), path, example_inputs=(x,), layers={"head": "FlattenLinear"})
    manifests.write(made, tmp_path / "weights.json")
    port_weights(path, tmp_path / "weights.json", tmp_path / "o.msgpack", verify=True)
    here = from_pretrained(Image(), path, example_inputs=(x,), layers={"head": "FlattenLinear"})
    there = from_pretrained(Image(), tmp_path / "o.msgpack", from_pt=False, example_inputs=(x,))
    assert tree_util.tree_all(tree_util.tree_map(lambda a, b: bool((a == b).all()), here, there))
    port_weights(tmp_path / "o.msgpack", tmp_path / "weights.json", tmp_path / "b.safetensors", reverse=True)
    back, first = open_checkpoint(tmp_path / "b.safetensors"), open_checkpoint(path)
    assert all(np.array_equal(back.read(key), first.read(key)) for key in back)


# --- what is not decided ----------------------------------------------------------------------------------------------


def refused(code, *words, module, path, **options):
    with pytest.raises(PortError) as caught:
        from_pretrained(module, path, **options)
    assert code in {problem.code for problem in caught.value.problems}, caught.value
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_square_matrix_can_be_either_way(text):
    _, path, _, x = text
    refused(
        "WPT109", "h.0.q_proj.weight fills params/block_0/query/kernel", "Linear", "Conv1D",
        'layers={"h.0.q_proj": "Linear"}', module=Text(), path=path, example_inputs=(x,),
    )  # fmt: skip


def test_a_flattened_image_can_be_either_way(image):
    _, path, _, x = image
    refused("WPT109", "FlattenLinear", module=Image(), path=path, example_inputs=(x,))
    refused("WPT009", "example_inputs", module=ImageNNX(nnx.Rngs(0)), path=path)


class Two(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.relu(nn.Dense(3)(x)))


class Named(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3, name="second")(nn.relu(nn.Dense(3, name="first")(x)))


@pytest.mark.parametrize("keys", [("fc1", "fc2"), ("net.0", "net.2")])
def test_layers_of_one_shape_can_be_exchanged(tmp_path, keys):
    """Linen's Dense_1 is the second layer, torch's fc1 the first: equal numbers prove nothing."""
    state = {
        f"{key}.{leaf}": torch.randn(*shape) for key in keys for leaf, shape in (("weight", (3, 3)), ("bias", (3,)))
    }
    save_file(state, tmp_path / "m.safetensors")
    options = {"path": tmp_path / "m.safetensors", "example_inputs": (jnp.ones((1, 3)),), "layers": {"*": "Linear"}}
    for module in (Two(), Named()):
        refused("WPT109", f"could be filled by any of {keys[0]}, {keys[1]}", "Say names=", module=module, **options)
    named = {"Dense_0": keys[0], "Dense_1": keys[1]}
    variables = from_pretrained(Two(), names=named, **options)
    np.testing.assert_array_equal(variables["params"]["Dense_1"]["kernel"], state[f"{keys[1]}.weight"].numpy().T)


def test_what_is_missing_and_what_is_left_over(tmp_path):
    save_file({"a.weight": torch.ones(4, 3), "b.weight": torch.ones(7, 7)}, tmp_path / "m.safetensors")
    refused("WPT102", "nothing fills Dense_0 (Dense: bias (3,), kernel (3, 3))", "WPT101", "b.weight (7, 7)",
            module=Two(), path=tmp_path / "m.safetensors", example_inputs=(jnp.ones((1, 3)),))  # fmt: skip


def test_arguments_that_do_not_fit(tmp_path):
    save_file({"a.weight": torch.ones(3, 3), "a.bias": torch.ones(3)}, tmp_path / "m.safetensors")
    path, x = tmp_path / "m.safetensors", jnp.ones((1, 3))
    refused("WPT009", "Give an instance", module=Two, path=path)
    refused("WPT009", "not a linen or nnx module", module=object(), path=path)
    refused("WPT009", "example_inputs", module=Two(), path=path)
    refused("WPT102", "speaks of nothing", module=nn.Dense(3), path=path, example_inputs=(x,), names={"nothing": "a"})
    refused("WPT102", "Near: a", module=nn.Dense(3), path=path, example_inputs=(x,), names={"": "aa"})


def test_wide_types_are_not_narrowed_silently(tmp_path):
    save_file({"a.weight": torch.ones(4, 3, dtype=torch.float64)}, tmp_path / "m.safetensors")
    options = {"path": tmp_path / "m.safetensors", "example_inputs": (jnp.ones((1, 3)),)}
    refused("WPT106", "float64", module=nn.Dense(4, use_bias=False), **options)
    variables = from_pretrained(nn.Dense(4, use_bias=False), dtype=jnp.float32, **options)
    assert variables["params"]["kernel"].dtype == jnp.float32


class Untied(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(11, use_bias=False, name="head")(nn.Embed(11, 16, name="tokens")(x))


def test_a_tied_tensor_that_the_model_holds_twice(tmp_path):
    """The checkpoint has it once: the caller says so, and going back the two must be equal."""
    weight = torch.randn(11, 16)
    save_file({"wte.weight": weight}, tmp_path / "m.safetensors")
    arguments = {"example_inputs": (np.zeros((2, 5), int),)}
    with pytest.raises(PortError, match="say names="):
        match_module(Untied(), tmp_path / "m.safetensors", names={"tokens": "wte"}, **arguments)
    manifest = match_module(
        Untied(),
        tmp_path / "m.safetensors",
        names={"tokens": "wte", "head": "wte"},
        layers={"*": "Linear"},
        **arguments,
    )
    manifest = manifests.loads(manifests.dumps(manifest))
    port_weights(tmp_path / "m.safetensors", manifest, tmp_path / "o.npz", verify=True)
    made = dict(np.load(tmp_path / "o.npz"))
    assert np.array_equal(made["params/head/kernel"], made["params/tokens/embedding"].T)
    port_weights(tmp_path / "o.npz", manifest, tmp_path / "b.pt", reverse=True)
    assert torch.equal(torch.load(tmp_path / "b.pt")["wte.weight"], weight)
    np.savez(tmp_path / "trained.npz", **made | {"params/head/kernel": made["params/head/kernel"] + 1})
    with pytest.raises(PortError, match="WPT105"):
        port_weights(tmp_path / "trained.npz", manifest, tmp_path / "c.pt", reverse=True)


# --- stacked layers ---------------------------------------------------------------------------------------------------


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        return Block(name="block")(x), None


class ScannedText(nn.Module):
    axis: int

    @nn.compact
    def __call__(self, x):
        embed = nn.Embed(11, 16, name="tokens")
        x = embed(x) + self.param("positions", nn.initializers.zeros, (1, 5, 16))
        scanned = nn.scan(Layer, variable_axes={"params": self.axis}, split_rngs={"params": True}, length=3)
        x, _ = scanned(name="blocks")(x, None)
        return embed.attend(x)


@pytest.mark.parametrize("axis", [0, 1])
def test_layers_that_a_scan_stacks(axis, tmp_path):
    module = TorchText()
    path = saved(module, tmp_path)
    x = np.random.default_rng(0).integers(0, 11, (2, 5))
    arguments = {"example_inputs": (x,), "layers": {"*": "Linear"}}
    variables = from_pretrained(ScannedText(axis), path, **arguments)
    kernel = np.asarray(variables["params"]["blocks"]["block"]["Dense_1"]["kernel"])
    assert np.array_equal(np.take(kernel, 1, axis), module.h[1].fc1.weight.detach().numpy().T)
    found = jax.jit(ScannedText(axis).apply)(variables, x)
    close(found, module(torch.from_numpy(x)))
    # the manifest is that of a person, and goes back
    manifest = match_module(ScannedText(axis), path, **arguments)
    fc1 = next(leaf for leaf in manifest.models[0].leaves if leaf.flax == "params/blocks/block/Dense_1/kernel")
    assert (fc1.torch, fc1.put[0].to_json()) == ("h.{0}.fc1.weight", ["stack", axis, "{0}"])
    port_weights(path, manifest, tmp_path / "o.msgpack")
    port_weights(tmp_path / "o.msgpack", manifest, tmp_path / "b.pt", reverse=True)
    assert all(torch.equal(tensor, module.state_dict()[key]) for key, tensor in torch.load(tmp_path / "b.pt").items())


class Rows(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(4, epsilon=1e-5, rngs=rngs)
        self.up, self.down = nnx.Linear(4, 8, rngs=rngs), nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, x):
        return x + self.down(nnx.relu(self.up(self.norm(x))))


class Tower(nnx.Module):
    def __init__(self, rngs):
        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=0, out_axes=0)
        def make(rngs):
            return Rows(rngs)

        self.layers, self.out = make(rngs), nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def forward(x, layer):
            return layer(x)

        return self.out(forward(x, self.layers))


class TorchRows(tnn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = tnn.LayerNorm(4), tnn.Linear(4, 8), tnn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def test_layers_that_nnx_stacks(tmp_path):
    module = tnn.ModuleDict({"layers": tnn.Sequential(*(TorchRows() for _ in range(3))), "out": tnn.Linear(4, 2)})
    path = saved(module, tmp_path)
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    tower = from_pretrained(Tower(nnx.Rngs(0)), path, example_inputs=(x,))
    close(tower(x), module["out"](module["layers"](torch.from_numpy(x))))
