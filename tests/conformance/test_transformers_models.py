"""Models of transformers: the forward pass with what it takes of the library, in both frameworks. A stand-in has the
part of the library that their files name."""

from __future__ import annotations

import sys
import textwrap
import types
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import libcst as cst
import numpy as np
import pytest
import torch
from torch import nn

from migrate.files.source import parse
from migrate.lowering.plainer.transformers_functions import FUNCTIONS
from migrate.lowering.plainer.transformers_models import with_plain_transformers
from migrate.lowering.plainer.without_cache import WithoutCache
from migrate.lowering.rounds import Input
from tests.conformance import rewritten
from tests.conformance.run_layer import leaves, numpy_state
from weight_port import port_state_dict

MODEL = """import torch
from torch import nn

from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_layers import GenericForSequenceClassification, GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS, dynamic_rope_update
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.utils import auto_docstring, can_return_tuple


def plain_attention(module, query, key, value, mask, scaling, dropout=0.0, **kwargs):
    weights = query @ key.transpose(2, 3) * scaling + mask
    weights = nn.functional.dropout(weights.softmax(-1), p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2), weights


class Rotary(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.rope_type = config.rope_type
        rope_init_fn = self.compute_default_rope_parameters
        if self.rope_type != "default":
            rope_init_fn = ROPE_INIT_FUNCTIONS[self.rope_type]
        steps, self.scale = rope_init_fn(config)
        self.register_buffer("steps", steps, persistent=False)

    @staticmethod
    def compute_default_rope_parameters(config):
        return 1.0 / 100 ** (torch.arange(0, 4, 2, dtype=torch.float) / 4), 1.0

    @dynamic_rope_update
    def forward(self, x, position_ids):
        turned = position_ids[..., None].float() * self.steps
        return turned.cos() * self.scale


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.kv_proj = nn.Linear(config.hidden_size, 2 * config.hidden_size)

    def forward(self, hidden_states, attention_mask, turned, past_key_values: Cache | None = None, **kwargs):
        shape = (*hidden_states.shape[:-1], 2, -1)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key, value = self.kv_proj(hidden_states).view(shape).transpose(1, 2).chunk(2, dim=-1)
        query = torch.cat([query[..., :2] * turned[:, None], query[..., 2:]], dim=-1)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, 0)
        attention_interface = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, plain_attention)
        out, _ = attention_interface(self, query, key, value, attention_mask, scaling=0.5, window=3, **kwargs)
        return out.reshape(*hidden_states.shape[:-1], -1)


class Layer(GradientCheckpointingLayer):
    def __init__(self, config):
        super().__init__()
        self.attention = Attention(config)
        if isinstance(config.hidden_act, str):
            self.act = ACT2FN[config.hidden_act]
        else:
            self.act = config.hidden_act

    def forward(self, hidden_states, attention_mask, turned, past_key_values=None, use_cache=False, **kwargs):
        given = {"attention_mask": attention_mask, "turned": turned, "past_key_values": past_key_values}
        out = self.attention(hidden_states=hidden_states, use_cache=use_cache, **given, **kwargs)
        return hidden_states + self.act(out)


@auto_docstring
class SmallPreTrainedModel(PreTrainedModel):
    config_class = dict
    base_model_prefix = "model"
    _no_split_modules = ["Layer"]
    _can_record_outputs = {"hidden_states": Layer}

    def _init_weights(self, module):
        super()._init_weights(module)


@auto_docstring
class SmallModel(SmallPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])
        self.rotary = Rotary(config)
        self.post_init()

    def get_input_embeddings(self):
        return self.embed_tokens

    def set_input_embeddings(self, value):
        self.embed_tokens = value

    @auto_docstring
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        inputs_embeds=None,
        use_cache=None,
        **kwargs,
    ):
        embedded = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        if position_ids is None:
            seen = past_key_values.get_seq_length() if past_key_values is not None else 0
            position_ids = (torch.arange(embedded.shape[1]) + seen).unsqueeze(0)
        given = {"config": self.config, "inputs_embeds": embedded, "attention_mask": attention_mask}
        given = {**given, "past_key_values": past_key_values, "position_ids": position_ids}
        masks = [create_causal_mask(**given), create_sliding_window_causal_mask(**given)]
        turned = self.rotary(embedded, position_ids)
        for number, layer in enumerate(self.layers):
            embedded = layer(embedded, masks[number % 2], turned, past_key_values, use_cache=use_cache, **kwargs)
        return BaseModelOutputWithPast(
            last_hidden_state=embedded, past_key_values=past_key_values if use_cache else None
        )


class SmallForCausalLM(SmallPreTrainedModel):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = SmallModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, labels=None, **kwargs
    ) -> CausalLMOutputWithPast:
        outputs: BaseModelOutputWithPast = self.model(input_ids, attention_mask, position_ids, **kwargs)
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


class SmallForSequenceClassification(GenericForSequenceClassification, SmallPreTrainedModel): ...
"""


class PreTrainedModel(nn.Module):
    """The part of the library's class that its models name."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def post_init(self) -> None:
        pass

    def loss_function(self, logits: Any, labels: Any, vocab_size: int) -> Any:
        shifted = logits[:, :-1].reshape(-1, vocab_size)
        return nn.functional.cross_entropy(shifted, labels[:, 1:].reshape(-1), ignore_index=-100)


class Result(dict[str, Any]):
    """The same of its results."""

    hidden_states = None

    def __getattr__(self, name: str) -> Any:
        return self[name]


def mask(config: Any, inputs_embeds: Any, attention_mask: Any, position_ids: Any, window: int = 99, **_: Any) -> Any:
    """Told one by one: which keys a query sees."""
    rows, length = inputs_embeds.shape[:2]
    made = torch.full((rows, 1, length, length), torch.finfo(torch.float32).min, dtype=torch.float64)
    places = position_ids.expand(rows, -1)
    for row in range(rows):
        for q in range(length):
            for k in range(max(0, q - window + 1), q + 1):
                packed = attention_mask is None and any(places[row, j + 1] != places[row, j] + 1 for j in range(k, q))
                if not packed and (attention_mask is None or attention_mask[row, k]):
                    made[row, 0, q, k] = 0
    return made


def same(one: Any) -> Any:
    return one


PARTS: dict[str, dict[str, Any]] = {
    "activations": {"ACT2FN": {"gelu": nn.GELU(), "gelu_new": nn.GELU(approximate="tanh"), "silu": nn.SiLU()}},
    "cache_utils": {"Cache": object, "DynamicCache": object},
    "masking_utils": {
        "create_causal_mask": mask,
        "create_sliding_window_causal_mask": lambda config, **given: mask(
            config, window=config.sliding_window, **given
        ),
    },
    "modeling_layers": {"GenericForSequenceClassification": object, "GradientCheckpointingLayer": nn.Module},
    "modeling_outputs": {"BaseModelOutputWithPast": Result, "CausalLMOutputWithPast": Result},
    "modeling_rope_utils": {"ROPE_INIT_FUNCTIONS": {}, "dynamic_rope_update": same},
    "modeling_utils": {
        "ALL_ATTENTION_FUNCTIONS": SimpleNamespace(get_interface=lambda _, function: function),
        "PreTrainedModel": PreTrainedModel,
    },
    "utils": {"auto_docstring": same, "can_return_tuple": same},
}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, held in {"": {}, **PARTS}.items():
        module = types.ModuleType(f"transformers.{name}".rstrip("."))
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    yield


def config(**given: Any) -> Any:
    """Settings that jit may hash."""
    usual = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 3, "pad_token_id": None, "rope_type": "default"}
    more = {"hidden_act": "gelu_new", "sliding_window": 3, "tie_word_embeddings": False, "_attn_implementation": "sdpa"}
    return type("Config", (), {**usual, **more, "num_labels": 4, "problem_type": None, **given})()


IDS = np.array([[1, 4, 2, 9, 9, 3], [5, 0, 7, 7, 10, 6]])
GIVEN = {
    "tokens": {},
    "a padding mask": {"attention_mask": np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])},
    "packed rows": {"position_ids": np.array([[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 2, 3]])},
    "labels": {"labels": np.array([[1, 4, 2, -100, 9, 3], [5, 0, 7, 7, 10, 6]])},
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("padded", [None, 7])
def test_a_decoder(given: str, padded: int | None, library: None, float64: None) -> None:
    made = rewritten.clean(MODEL)
    torch.manual_seed(0)
    theirs = rewritten.executed(MODEL.replace("GenericForSequenceClassification, Small", "Small"))
    model = theirs["SmallForCausalLM"](config(pad_token_id=padded)).double()
    inputs = {"input_ids": IDS, **GIVEN[given]}
    wanted = model(**{name: torch.tensor(value) for name, value in inputs.items()})
    ours = rewritten.executed(made.text)["SmallForCausalLM"](config(pad_token_id=padded))
    variables = port_state_dict(numpy_state(model), rewritten.model_weights(made, "SmallForCausalLM"))
    variables = jax.tree.map(jnp.asarray, variables)
    found = jax.jit(lambda variables: ours.apply(variables, **inputs))(variables)
    np.testing.assert_allclose(
        found["logits"], wanted["logits"].detach().numpy(), rtol=1e-6, atol=1e-6
    )  # masks are float32
    if "labels" in GIVEN[given]:
        np.testing.assert_allclose(found["loss"], wanted["loss"].item(), rtol=1e-6)
        wanted["loss"].backward()
        slope = jax.grad(lambda tree: ours.apply(tree, **inputs)["loss"])(variables)["params"]
        table = model.model.embed_tokens.weight.grad.numpy()
        np.testing.assert_allclose(slope["model"]["embed_tokens"]["embedding"], table, rtol=1e-5, atol=1e-7)


def test_what_the_output_says() -> None:
    made = rewritten.clean(MODEL)
    assert [found.code for found in made.report.diagnostics] == ["MIG517"]
    for gone in ("past_key_values", "use_cache", "auto_docstring", "modeling_outputs", "_no_split", "embeddings(self"):
        assert gone not in made.text, gone
    assert 'return {"loss": loss, "logits": logits}' in made.text


UNLIKE = MODEL.replace('{"lm_head.weight": "model.embed', '{"model.other.weight": "model.embed')


@pytest.mark.parametrize(("text", "setting"), [(UNLIKE, {"tie_word_embeddings": True}), (MODEL, {"rope_type": "yarn"})])
def test_settings_that_are_not_converted_raise(text: str, setting: dict[str, Any], library: None) -> None:
    ours = rewritten.executed(rewritten.clean(text).text)["SmallForCausalLM"](config(**setting))
    with pytest.raises(ValueError, match="not converted"):
        ours.init(jax.random.key(0), IDS)


def test_a_head_with_the_weight_of_an_embedding(library: None, float64: None) -> None:
    """The library ties them after the model is made; what it saves has one of the two."""
    made = rewritten.clean(MODEL)
    assert "self.model.embed_tokens.attend if self.config.tie_word_embeddings else self.lm_head" in made.text
    torch.manual_seed(0)
    settings = config(tie_word_embeddings=True)
    text = MODEL.replace("GenericForSequenceClassification, Small", "Small")
    model = rewritten.executed(text)["SmallForCausalLM"](settings).double()
    model.lm_head.weight = model.model.embed_tokens.weight
    saved = {name: leaf for name, leaf in numpy_state(model).items() if name != "lm_head.weight"}
    variables = jax.tree.map(jnp.asarray, port_state_dict(saved, rewritten.model_weights(made, "SmallForCausalLM")))
    ours = rewritten.executed(made.text)["SmallForCausalLM"](settings)
    assert leaves(ours.init(jax.random.key(0), IDS)).keys() == leaves(variables).keys()
    inputs = {"input_ids": IDS, **GIVEN["labels"]}
    wanted = model(**{name: torch.tensor(value) for name, value in inputs.items()})
    np.testing.assert_allclose(
        ours.apply(variables, **inputs)["logits"], wanted["logits"].detach().numpy(), rtol=1e-6, atol=1e-6
    )
    wanted["loss"].backward()
    slope = jax.grad(lambda tree: ours.apply(tree, **inputs)["loss"])(variables)["params"]
    table = model.model.embed_tokens.weight.grad.numpy()
    np.testing.assert_allclose(slope["model"]["embed_tokens"]["embedding"], table, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("labels", [None, np.array([1, 3])])
def test_a_class_that_the_library_has_one_of_for_all(labels: Any, library: None) -> None:
    made = rewritten.clean(MODEL)
    ours = rewritten.executed(made.text)["SmallForSequenceClassification"](config(pad_token_id=9))
    variables = ours.init(jax.random.key(0), IDS)
    scored = ours.apply(variables, IDS, labels=labels)
    assert scored["logits"].shape == (2, 4)  # of the last token that is no padding
    earlier = ours.apply(variables, np.where(IDS == 3, 9, IDS))["logits"]
    assert not np.allclose(earlier[0], scored["logits"][0]) and np.allclose(earlier[1], scored["logits"][1])
    assert (scored["loss"] is None) == (labels is None)


def test_the_functions_are_the_librarys() -> None:
    """As far as the installed one has them."""
    activations = pytest.importorskip("transformers.activations")
    known: dict[str, Any] = {"nn": nn, "torch": torch}
    for text in FUNCTIONS.values():
        exec(text, known)
    x = torch.linspace(-3, 3, 25, dtype=torch.float64)
    for name in known["ACT2FN"].keys() & activations.ACT2FN.keys():
        ours = known["ACT2FN"][name]
        torch.testing.assert_close(ours(x), activations.ACT2FN[name](x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("if use_cache and not x:\n    f()\nelse:\n    g()", "g()"),
        ("if past_key_values is None or x:\n    f()", "f()"),
        ("if x and y:\n    f()", "if x and y:\n    f()"),
        ("if isinstance(past_key_values, tuple):\n    f()\nelif x:\n    g()", "if x:\n    g()"),
        ("n = past_key_values.size() if past_key_values is not None else 0", "n = 0"),
        ("use_cache = True\nf(past_key_values=None, x=1)", "f(x=1)"),
    ],
)
def test_what_goes_by_a_cache(text: str, left: str) -> None:
    inside = "def forward():\n" + textwrap.indent(text, "    ")
    made = cst.parse_module(inside).visit(WithoutCache(frozenset(), {})).code
    assert textwrap.dedent(made.partition("\n")[2]).strip() == left
    assert cst.parse_module(text).visit(WithoutCache(frozenset(), {})).code == text  # of a script


@pytest.mark.parametrize(
    ("read", "code"),
    [
        ("outputs.hidden_states", "MIG304"),
        ("outputs[2]", "MIG304"),
        ("outputs[1:]", "MIG304"),
        ("outputs[0]", ""),
        ("outputs[:1][0]", ""),
        ('outputs["loss"]', ""),
    ],
)
def test_results_that_only_the_library_has(read: str, code: str) -> None:
    text = MODEL.replace("self.lm_head(outputs.last_hidden_state)", f"self.lm_head({read})")
    codes = {found.code for found in rewritten.conversion(text).report.diagnostics}
    assert codes - {"MIG517"} == ({code} if code else set())


def test_files_that_have_no_such_model_are_left() -> None:
    text = "from ..layers import ACT2FN\nfrom transformers import PreTrainedModel\n\n\ndef f(model: PreTrainedModel):\n"
    text += "    return model(use_cache=True, act=ACT2FN)\n"
    source = Input(parse("x.py", text))
    assert with_plain_transformers([source]) == [source]
    own = text.replace("def f", "class Net(PreTrainedModel):\n    pass\n\n\ndef f")
    (made,) = with_plain_transformers([Input(parse("x.py", own))])
    assert "from ..layers import ACT2FN\n" in made.source.module.code
