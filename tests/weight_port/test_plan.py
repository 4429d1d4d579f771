"""Strict both ways: every key is used once, every leaf filled, or a code that names key and leaf."""

import numpy as np
import pytest

from migrate.layers.moves import Flip, Permute, Reshape
from migrate.manifest import Leaf, ModelWeights, Tie, Unused
from weight_port import PortError, TensorInfo, port_state_dict, unport_tree
from weight_port.names import Pattern
from weight_port.planning import choose_model, plan_port, plan_unport

SWAP = (Permute((1, 0)),)
HWIO = (Permute((2, 3, 1, 0)),)


def info(*shape: int, dtype: str = "float32") -> TensorInfo:
    return TensorInfo(shape, np.dtype(dtype))


def fails(code: str, model: ModelWeights, tensors: dict, *words: str, plan=plan_port, **options) -> PortError:
    with pytest.raises(PortError) as caught:
        plan(model, tensors, **options)
    assert caught.value.code == code and caught.value.exit_code == (1 if code > "WPT1" else 2)
    for word in words:
        assert word in str(caught.value)
    return caught.value


FC = ModelWeights(
    "Net",
    (Leaf("params/fc/kernel", "fc.weight", SWAP, (2, 3)), Leaf("params/fc/bias", "fc.bias", (), (3,))),
    (Unused("bn.{0}.num_batches_tracked", "Flax counts no batches"),),
)
FITS = {"fc.weight": info(3, 2), "fc.bias": info(3)}
BACK = {"params/fc/kernel": info(2, 3), "params/fc/bias": info(3)}


def test_a_plan():
    plan = plan_port(FC, {"fc.bias": info(3), "fc.weight": info(3, 2), "bn.1.num_batches_tracked": info(dtype="int64")})
    assert [(step.source, step.target) for step in plan.steps] == [
        ("fc.weight", "params/fc/kernel"),
        ("fc.bias", "params/fc/bias"),
    ]
    assert plan.steps[0].after == info(2, 3)
    assert plan.dropped == (("bn.1.num_batches_tracked", "Flax counts no batches"),)


def test_an_unused_key():
    error = fails("WPT101", FC, FITS | {"fc2.bias": info(3)}, "nothing uses fc2.bias", "Near: fc.bias")
    assert len(error.problems) == 1
    fails("WPT101", FC, FITS | {"zzz": info(3)}, "nothing uses zzz", '"unused"')
    fails("WPT101", FC, BACK | {"params/extra": info(3)}, "nothing uses params/extra", plan=plan_unport)


def test_an_unfilled_leaf():
    fails("WPT102", FC, {"fc.weight": info(3, 2)}, "nothing fills params/fc/bias", "no fc.bias")
    fails("WPT102", FC, {"params/fc/bias": info(3)}, "nothing fills fc.weight", plan=plan_unport)
    assert len(plan_port(ModelWeights("Net", (Leaf("params/b", "b", (), (3,), None, True),)), {}).steps) == 0


def test_the_wrong_shape():
    words = "fc.weight -> params/fc/kernel", "(2, 3), which becomes (3, 2); the manifest says (2, 3)"
    fails("WPT103", FC, FITS | {"fc.weight": info(2, 3)}, *words)
    fails("WPT103", FC, FITS | {"fc.weight": info(3)}, "needs 2 axes")
    fails("WPT103", FC, FITS | {"fc.bias": info(4)}, "it has the shape (4,); the manifest says (3,)")
    fails("WPT103", FC, BACK | {"params/fc/kernel": info(3, 2)}, "params/fc/kernel -> fc.weight", plan=plan_unport)


def test_all_problems_are_reported_together():
    error = fails("WPT103", FC, {"fc.wieght": info(3, 2), "fc.bias": info(7)}, "3 problems", "Near: fc.weight")
    assert [problem.code for problem in error.problems] == ["WPT103", "WPT101", "WPT102"]
    many = fails("WPT101", FC, FITS | {f"x{i}": info(1) for i in range(50)}, "50 problems", "and 30 more")
    assert len(many.problems) == 50


# --- wildcards --------------------------------------------------------------------------------------------------------

BLOCKS = ModelWeights(
    "GPT",
    (Leaf("params/blocks_{0}/heads_{1}/key/kernel", "blocks.{0}.heads.{1}.key.weight", SWAP, (None, None)),),
    (Unused("blocks.{0}.mask", "recomputed"),),
    (Tie("blocks.{0}.again", "blocks.{0}.heads.0.key.weight"),),
)


def test_wildcards_expand():
    keys = {f"blocks.{i}.heads.{j}.key.weight": info(4, 3) for i in (0, 2, 10) for j in (0, 1)}
    plan = plan_port(BLOCKS, keys | {"blocks.2.mask": info(1)})
    assert {step.target for step in plan.steps} == {
        f"params/blocks_{i}/heads_{j}/key/kernel" for i in (0, 2, 10) for j in (0, 1)
    }
    back = plan_unport(BLOCKS, {step.target: step.after for step in plan.steps})
    assert {step.target for step in back.steps} == set(keys)
    assert dict(back.ties)["blocks.10.again"] == "blocks.10.heads.0.key.weight"


def test_a_wildcard_that_finds_nothing():
    fails("WPT102", BLOCKS, {}, "blocks_{0}/heads_{1}")
    optional = ModelWeights("GPT", (Leaf("params/b_{0}", "b.{0}", optional=True),))
    assert plan_port(optional, {}).steps == ()


def test_an_index_is_a_number():
    fails("WPT101", BLOCKS, {"blocks.0.heads.x.key.weight": info(4, 3)}, "heads.x")
    fails("WPT101", BLOCKS, {"blocks.00.heads.0.key.weight": info(4, 3)}, "blocks.00")


def test_one_index_twice_is_one_index():
    pattern = Pattern("a.{0}.b.{0}")
    assert pattern.match("a.3.b.3") == {"0": "3"} and pattern.match("a.3.b.4") is None
    assert pattern.fill({"0": "5"}) == "a.5.b.5"
    assert Pattern("a+b.{0}").match("aab.1") is None  # the rest is no regular expression


# A nn.Sequential built by a loop: Linear, BatchNorm, ReLU, again and again
STACK = ModelWeights(
    "MLP",
    (
        Leaf("params/net/layers_{0}/kernel", "net.{0}.weight", SWAP, (None, None)),
        Leaf("params/net/layers_{0}/bias", "net.{0}.bias", (), (None,)),
        Leaf("params/net/layers_{0}/scale", "net.{0}.weight", (), (None,)),
        Leaf("params/net/layers_{0}/bias", "net.{0}.bias", (), (None,)),
        Leaf("batch_stats/net/layers_{0}/mean", "net.{0}.running_mean", (), (None,)),
        Leaf("batch_stats/net/layers_{0}/var", "net.{0}.running_var", (), (None,)),
    ),
)


def stack() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    state = {}
    for i, (wide, narrow) in {0: (4, 3), 3: (2, 4)}.items():
        state |= {f"net.{i}.weight": rng.normal(size=(wide, narrow)), f"net.{i}.bias": rng.normal(size=wide)}
        for name in ("weight", "bias", "running_mean", "running_var"):
            state[f"net.{i + 1}.{name}"] = rng.normal(size=wide)
    return state


def test_the_rank_decides():
    state = stack()
    tree = port_state_dict(state, STACK)
    assert set(tree["params"]["net"]["layers_0"]) == {"kernel", "bias"}
    assert set(tree["params"]["net"]["layers_4"]) == {"scale", "bias"}
    back = unport_tree(tree, STACK)
    assert back.keys() == state.keys()
    for key in state:
        np.testing.assert_array_equal(back[key], state[key])


def test_the_rank_decides_against_all():
    fails("WPT103", STACK, {"net.0.weight": info(2, 3, 4)}, "rank of none", "layers_0/kernel (?, ?)")


def test_the_rank_does_not_decide():
    two = ModelWeights("Net", (Leaf("params/l_{0}/kernel", "l.{0}.w", SWAP), Leaf("params/l_{0}/embedding", "l.{0}.w")))
    fails(
        "WPT104", two, {"l.0.w": info(2, 3)}, "l.0.w (2, 3) could fill params/l_0/kernel (...) or params/l_0/embedding"
    )
    # Conv and ConvTranspose kernels: the same name and rank, other moves
    moves = ModelWeights(
        "N", (Leaf("params/{0}/k", "{0}.w", (Permute((1, 0)),)), Leaf("params/{0}/k", "{0}.w", (Flip((1,)),)))
    )
    fails("WPT104", moves, {"1.w": info(2, 3)}, "does not decide")


def test_two_keys_for_one_leaf():
    twice = ModelWeights("Net", (Leaf("params/a", "a"), Leaf("params/a", "b")))
    fails("WPT104", twice, {"a": info(1), "b": info(1)}, "b and a would both fill params/a")


# --- ties -------------------------------------------------------------------------------------------------------------

TIED = ModelWeights("LM", (Leaf("params/wte/embedding", "wte.weight"),), (), (Tie("head.weight", "wte.weight"),))
W = np.array([[1.0, np.nan], [-0.0, 2.0]])


@pytest.mark.parametrize("keys", [("wte.weight", "head.weight"), ("wte.weight",), ("head.weight",)])
def test_a_tie_fills_one_leaf(keys):
    tree = port_state_dict({key: W.copy() for key in keys}, TIED)
    assert tree["params"]["wte"].keys() == {"embedding"}
    assert tree["params"]["wte"]["embedding"].tobytes() == W.tobytes()
    back = unport_tree(tree, TIED)
    assert back["head.weight"] is back["wte.weight"] and back["wte.weight"].tobytes() == W.tobytes()


BY_FLAG = ModelWeights(
    "LM",
    (*TIED.leaves, Leaf("params/head/kernel", "head.weight", (Permute((1, 0)),), (None, None), optional=True)),
    (),
    (Tie("head.weight", "wte.weight", optional=True),),
)


@pytest.mark.parametrize("keys", [("wte.weight", "head.weight"), ("wte.weight",), ("head.weight",)])
def test_a_flag_that_tied(keys):
    tree = port_state_dict({key: W.copy() for key in keys}, BY_FLAG)
    assert tree["params"].keys() == {"wte"}
    back = unport_tree(tree, BY_FLAG)
    assert back["head.weight"] is back["wte.weight"] and back["wte.weight"].tobytes() == W.tobytes()


def test_a_flag_that_did_not_tie():
    state = {"wte.weight": W, "head.weight": W + 1}
    tree = port_state_dict(state, BY_FLAG)
    assert tree["params"]["head"]["kernel"].tobytes() == (W + 1).T.tobytes()
    back = unport_tree(tree, BY_FLAG)
    assert {name: value.tobytes() for name, value in back.items()} == {n: v.tobytes() for n, v in state.items()}


@pytest.mark.parametrize("dtype", ["float64", "complex128", "int8"])
def test_a_tie_that_differs(dtype):
    one = np.ones((2, 2), dtype)
    other = one.copy()
    other[1, 1] = 2
    port_state_dict({"wte.weight": one, "head.weight": one.copy()}, TIED)
    with pytest.raises(PortError) as caught:
        port_state_dict({"wte.weight": one, "head.weight": other}, TIED)
    assert caught.value.code == "WPT105" and "head.weight and wte.weight" in caught.value.message


def test_a_tie_of_zeros_with_other_signs_is_none():
    with pytest.raises(PortError, match="differ"):
        port_state_dict({"wte.weight": W, "head.weight": np.where(W == 0, 0.0, W)}, TIED)


def test_a_tie_of_another_shape_or_type():
    fails("WPT105", TIED, {"wte.weight": info(2, 2), "head.weight": info(2, 3)}, "head.weight (2, 3) float32")
    fails("WPT105", TIED, {"wte.weight": info(2), "head.weight": info(2, dtype="float16")}, "float16")


# --- types and the way back -------------------------------------------------------------------------------------------


def test_the_manifest_may_ask_for_a_type():
    def model(dtype: str) -> ModelWeights:
        return ModelWeights("Net", (Leaf("params/a", "a", dtype=dtype),))

    assert plan_port(model("float16"), {"a": info(1)}).steps[0].after == info(1, dtype="float16")
    assert plan_port(model("int32"), {"a": info(1, dtype="int64")}).steps[0].after.dtype == np.int32
    fails("WPT103", model("int32"), {"a": info(1)}, "the manifest says int32")
    fails("WPT103", model("complex64"), {"a": info(1, dtype="int32")}, "the manifest says complex64")
    fails("WPT103", model("flaot32"), {"a": info(1)}, "'flaot32' is not one of")


@pytest.mark.parametrize(
    ("dtype", "values"), [("float16", [1.0, 1e5]), ("int8", [1, 200]), ("float8_e4m3fn", [1.0, 1e9])]
)
def test_a_type_that_does_not_hold_the_values(dtype, values):
    model = ModelWeights("Net", (Leaf("params/a", "a", dtype=dtype),))
    with pytest.raises(PortError) as caught:
        port_state_dict({"a": np.array(values)}, model)
    assert caught.value.code == "WPT106" and f"{dtype} cannot hold" in caught.value.message


def test_infinities_may_be_converted():
    model = ModelWeights("Net", (Leaf("params/a", "a", dtype="float16"),))
    values = port_state_dict({"a": np.array([np.inf, np.nan, 1.0])}, model)["params"]["a"]
    np.testing.assert_array_equal(values, np.array([np.inf, np.nan, 1.0], np.float16))


FLATTENED = (Reshape((5, 2, 3, 3)), Permute((2, 3, 1, 0)), Reshape((18, 5)))


def test_no_way_back_through_a_reshape():
    leaf = Leaf("params/fc/kernel", "fc.weight", FLATTENED, (18, 5))
    fails("WPT107", ModelWeights("Net", (leaf,)), {"params/fc/kernel": info(18, 5)}, "torch_shape", plan=plan_unport)


def test_the_way_back_through_a_reshape():
    model = ModelWeights("Net", (Leaf("params/fc/kernel", "fc.weight", FLATTENED, (18, 5), torch_shape=(None, 18)),))
    weight = np.arange(90.0).reshape(5, 18)
    tree = port_state_dict({"fc.weight": weight}, model)
    expected = weight.reshape(5, 2, 3, 3).transpose(2, 3, 1, 0).reshape(18, 5)
    np.testing.assert_array_equal(tree["params"]["fc"]["kernel"], expected)
    np.testing.assert_array_equal(unport_tree(tree, model)["fc.weight"], weight)


def test_unreadable_values_matter_only_where_they_are_needed():
    opaque = {"fc.weight": "an object of mylib.Quantised", "extra": "an int"}
    fails(
        "WPT005",
        FC,
        {"fc.bias": info(3)},
        "fc.weight, which params/fc/kernel needs, is an object of mylib",
        opaque=opaque,
    )
    assert len(plan_port(FC, FITS, opaque={"extra": "an int"}).steps) == 2


def test_the_model_is_chosen_by_its_class():
    models = ModelWeights("Generator"), ModelWeights("Critic")
    assert choose_model(models, "Critic").name == "Critic"
    assert choose_model(models[:1], None).name == "Generator"
    for name, words in ((None, "describes 2 models: Generator, Critic"), ("Generater", "Near: Generator")):
        with pytest.raises(PortError) as caught:
            choose_model(models, name)
        assert caught.value.code == "WPT008" and words in str(caught.value)
    with pytest.raises(PortError, match="none"):
        choose_model((), None)


def test_the_arrays_are_new():
    bias, kernel = np.ones(3), np.ones((3, 2))
    tree = port_state_dict({"fc.weight": kernel, "fc.bias": bias}, FC)
    tree["params"]["fc"]["bias"][0] = tree["params"]["fc"]["kernel"][0, 0] = 7
    assert bias[0] == kernel[0, 0] == 1


def test_a_number_spelled_out_and_left_open():
    """A network whose number of layers is told at run time: its first layer, and any others."""
    names = ("w_l0", "w_l{0}")
    model = ModelWeights("Net", tuple(Leaf(f"params/{n}", n, SWAP, (None, None), optional="{" in n) for n in names))
    plan = plan_port(model, {"w_l0": info(4, 2), "w_l1": info(4, 4)})
    assert [(step.source, step.target) for step in plan.steps] == [("w_l0", "params/w_l0"), ("w_l1", "params/w_l1")]
    back = plan_unport(model, {"params/w_l0": info(2, 4), "params/w_l1": info(4, 4)})
    assert [step.target for step in back.steps] == ["w_l0", "w_l1"]


def test_a_bias_goes_where_the_weight_of_its_module_goes():
    """A list of rows that begin with a convolution or with a norm: the ranks of the weights tell which, for both."""
    conv = [Leaf("params/l_{0}/conv/kernel", "l.{0}.0.weight", HWIO, (None,) * 4, optional=True)]
    norm = [Leaf("params/l_{0}/norm/scale", "l.{0}.0.weight", (), (None,), optional=True)]
    biases = [Leaf(f"params/l_{{0}}/{n}/bias", "l.{0}.0.bias", (), (None,), optional=True) for n in ("conv", "norm")]
    model = ModelWeights("Net", (*conv, *norm, *biases))
    stored = {"l.0.0.weight": info(4, 3, 2, 2), "l.0.0.bias": info(4), "l.1.0.bias": info(4), "l.1.0.weight": info(4)}
    plan = plan_port(model, stored)
    found = {step.source: step.target for step in plan.steps}
    assert found["l.0.0.bias"] == "params/l_0/conv/bias"
    assert found["l.1.0.bias"] == "params/l_1/norm/bias"
    fails("WPT104", model, {"l.0.0.bias": info(4)}, "does not decide")
