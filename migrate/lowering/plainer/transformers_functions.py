"""What models of transformers take from the library, as it stands in a file that does without: functions, and the
classes that are alike for all models. In torch, and lowered with the rest.
"""

from __future__ import annotations

FUNCTIONS = {
    "Conv1D": '''
class Conv1D(nn.Module):
    """A dense layer whose weight has the inputs first."""

    def __init__(self, nf, nx):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(nx, nf) * 0.02)
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        return torch.matmul(x, self.weight) + self.bias
''',
    "gelu": """
def gelu(x: torch.Tensor):
    return nn.functional.gelu(x)
""",
    "causal_lm_loss": '''
def causal_lm_loss(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int):
    """The cross entropy of each next token; labels of -100 do not count."""
    labels = nn.functional.pad(labels, (0, 1), value=-100)[..., 1:]
    return nn.functional.cross_entropy(
        torch.reshape(logits, (-1, vocab_size)), torch.reshape(labels, (-1,)), ignore_index=-100
    )
''',
    "create_causal_mask": '''
def create_causal_mask(
    config,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.Tensor | None = None,
    window: int | None = None,
):
    """What is added to the products of queries and keys: little where a key comes later than the query, by a window
    earlier, is padding or of another sequence of a packed row; nothing elsewhere."""
    at = torch.arange(inputs_embeds.shape[1])
    seen = (at[None, :] <= at[:, None])[None, None]
    if window is not None:
        seen = seen & (at[None, :] > at[:, None] - window)[None, None]
    if attention_mask is not None:
        seen = seen & (attention_mask[:, None, None, :] != 0)
    elif position_ids is not None:
        restarts = position_ids[:, 1:] != position_ids[:, :-1] + 1
        sequence = nn.functional.pad(torch.cumsum(restarts, dim=-1), (1, 0))
        seen = seen & (sequence[:, None, :, None] == sequence[:, None, None, :])
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)
''',
    "create_sliding_window_causal_mask": '''
def create_sliding_window_causal_mask(
    config,
    inputs_embeds: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    position_ids: torch.Tensor | None = None,
):
    """The same in the window of `config.sliding_window`."""
    return create_causal_mask(config, inputs_embeds, attention_mask, position_ids, window=config.sliding_window)
''',
    "slice_logits_to_keep": '''
def slice_logits_to_keep(hidden_states: torch.Tensor, logits_to_keep: int = 0):
    """The last positions of which logits are wanted; 0 for all."""
    return hidden_states[:, -logits_to_keep:]
''',
    "classification_loss": '''
def classification_loss(labels: torch.Tensor, logits: torch.Tensor, config, pooled_logits: torch.Tensor | None = None):
    """The loss that transformers takes for classes, by `config.problem_type` and the number of labels."""
    logits = logits if pooled_logits is None else pooled_logits
    if config.problem_type == "regression" or (config.problem_type is None and config.num_labels == 1):
        return nn.functional.mse_loss(torch.squeeze(logits), torch.squeeze(labels))
    if config.problem_type == "multi_label_classification" or torch.is_floating_point(labels):
        return nn.functional.binary_cross_entropy_with_logits(logits, labels)
    return nn.functional.cross_entropy(torch.reshape(logits, (-1, config.num_labels)), torch.reshape(labels, (-1,)))
''',
    "ACT2FN": """
ACT2FN = {
    "gelu": nn.GELU(),
    "gelu_fast": nn.GELU(approximate="tanh"),
    "gelu_new": nn.GELU(approximate="tanh"),
    "gelu_pytorch_tanh": nn.GELU(approximate="tanh"),
    "hardswish": nn.Hardswish(),
    "leaky_relu": nn.LeakyReLU(),
    "linear": nn.Identity(),
    "mish": nn.Mish(),
    "relu": nn.ReLU(),
    "relu6": nn.ReLU6(),
    "sigmoid": nn.Sigmoid(),
    "silu": nn.SiLU(),
    "swish": nn.SiLU(),
    "tanh": nn.Tanh(),
}
""",
    "create_bidirectional_mask": '''
def create_bidirectional_mask(config, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None = None):
    """What is added to the products of queries and keys: little where a key is padding, nothing elsewhere."""
    if attention_mask is None:
        return None
    keys = attention_mask[:, None, None, :] != 0
    return torch.where(keys, 0.0, torch.finfo(torch.float32).min)
''',
}

_HEAD = """
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.num_labels = config.num_labels
        self.ATTRIBUTE = BASE(config)
"""
_FORWARD = """
    def forward(self, input_ids=None, attention_mask=None, position_ids=None, inputs_embeds=None, labels=None):
        outputs = self.ATTRIBUTE(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
        )
        hidden_states = outputs["last_hidden_state"]
"""
_DROPOUT = "getattr(config, 'classifier_dropout', None) or getattr(config, 'hidden_dropout', None) or 0.1"
GENERIC = {
    "GenericForSequenceClassification": f"""{_HEAD}
        self.score = nn.Linear(config.hidden_size, self.num_labels, bias=False)
{_FORWARD}
        logits = self.score(hidden_states)
        last = torch.full((logits.shape[0],), logits.shape[1] - 1)
        if self.config.pad_token_id is not None and input_ids is not None:
            last = torch.argmax(torch.arange(logits.shape[1]) * (input_ids != self.config.pad_token_id), dim=-1)
        pooled_logits = logits[torch.arange(logits.shape[0]), last]
        loss = None
        if labels is not None:
            loss = classification_loss(labels, pooled_logits, self.config)
        return {{"loss": loss, "logits": pooled_logits}}
""",
    "GenericForTokenClassification": f"""{_HEAD}
        self.dropout = nn.Dropout({_DROPOUT})
        bias = getattr(config, "token_classification_bias", True)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=bias)
{_FORWARD}
        logits = self.score(self.dropout(hidden_states))
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.view(-1, self.config.num_labels), labels.view(-1))
        return {{"loss": loss, "logits": logits}}
""",
    "GenericForQuestionAnswering": f"""{_HEAD}
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
{_FORWARD.replace("labels=None", "start_positions=None, end_positions=None")}
        logits = self.qa_outputs(hidden_states)
        start_logits, end_logits = logits[..., 0], logits[..., 1]
        loss = None
        if start_positions is not None and end_positions is not None:
            length = logits.shape[1]  # positions beyond the input do not count
            starts, ends = start_positions.clamp(0, length), end_positions.clamp(0, length)
            first = nn.functional.cross_entropy(start_logits, starts, ignore_index=length)
            loss = (first + nn.functional.cross_entropy(end_logits, ends, ignore_index=length)) / 2
        return {{"loss": loss, "start_logits": start_logits, "end_logits": end_logits}}
""",
}
