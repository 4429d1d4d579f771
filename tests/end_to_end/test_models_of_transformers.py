"""Scripts that train models of transformers, rewritten with the file that defines these, and run in both frameworks.

A stand-in of the library's fifth version has the part of it that scripts and its own files name; what it publishes is
drawn with a seed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "__init__.py": """__version__ = "5.1.0"
from .configuration_utils import AutoConfig, TinyConfig
from .models.tiny.modeling_tiny import TinyForSequenceClassification, TinyModel
from .optimization import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup, get_scheduler
""",
    "configuration_utils.py": """class TinyConfig:
    def __init__(self, vocab_size=50, hidden_size=8, num_labels=2, num_hidden_layers=2, dropout=0.0):
        self.vocab_size, self.hidden_size, self.num_labels = vocab_size, hidden_size, num_labels
        self.num_hidden_layers, self.dropout = num_hidden_layers, dropout


class AutoConfig:
    @staticmethod
    def from_pretrained(name, **settings):
        return TinyConfig(**settings)
""",
    "modeling_utils.py": """import torch
from torch import nn

from .configuration_utils import AutoConfig


class PreTrainedModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config

    def post_init(self):
        pass

    @classmethod
    def from_pretrained(cls, name, **settings):
        with torch.random.fork_rng():
            torch.manual_seed(7)
            return cls(AutoConfig.from_pretrained(name, **settings)).eval()
""",
    "modeling_outputs.py": """from collections import OrderedDict


class ModelOutput(OrderedDict):
    def __init__(self, **entries):
        super().__init__((key, value) for key, value in entries.items() if value is not None)

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else tuple(self.values())[key]

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)


class BaseModelOutputWithPooling(ModelOutput):
    pass


class SequenceClassifierOutput(ModelOutput):
    pass
""",
    "utils.py": """import functools


def can_return_tuple(forward):
    @functools.wraps(forward)
    def wrapped(self, *args, return_dict=True, **kwargs):
        output = forward(self, *args, **kwargs)
        return output if return_dict else tuple(output.values())

    return wrapped
""",
    "optimization.py": """import math

from torch.optim.lr_scheduler import LambdaLR


def get_linear_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, last_epoch=-1):
    def rate(step):
        if step < num_warmup_steps:
            return float(step) / float(max(1, num_warmup_steps))
        left = float(num_training_steps - step) / float(max(1, num_training_steps - num_warmup_steps))
        return max(0.0, left)

    return LambdaLR(optimizer, rate, last_epoch)


def get_cosine_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, num_cycles=0.5, last_epoch=-1):
    def rate(step):
        if step < num_warmup_steps:
            return float(step) / float(max(1, num_warmup_steps))
        progress = float(step - num_warmup_steps) / float(max(1, num_training_steps - num_warmup_steps))
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * float(num_cycles) * 2.0 * progress)))

    return LambdaLR(optimizer, rate, last_epoch)


def get_scheduler(name, optimizer, num_warmup_steps=None, num_training_steps=None):
    made = {"linear": get_linear_schedule_with_warmup, "cosine": get_cosine_schedule_with_warmup}
    return made[name](optimizer, num_warmup_steps, num_training_steps)
""",
    "models/__init__.py": "",
    "models/tiny/__init__.py": "",
    "models/tiny/modeling_tiny.py": """import torch
from torch import nn

from ...configuration_utils import TinyConfig
from ...modeling_outputs import BaseModelOutputWithPooling, SequenceClassifierOutput
from ...modeling_utils import PreTrainedModel
from ...utils import can_return_tuple


class TinyLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, hidden_states):
        return self.norm(hidden_states + torch.tanh(self.dense(hidden_states)))


class TinyPreTrainedModel(PreTrainedModel):
    config: TinyConfig
    base_model_prefix = "tiny"


class TinyModel(TinyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layer = nn.ModuleList([TinyLayer(config) for _ in range(config.num_hidden_layers)])
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        hidden_states = self.embeddings(input_ids)
        if attention_mask is not None:
            hidden_states = hidden_states * attention_mask.unsqueeze(-1)
        for layer in self.layer:
            hidden_states = layer(hidden_states)
        return BaseModelOutputWithPooling(last_hidden_state=hidden_states, pooler_output=hidden_states[:, 0])


class TinyForSequenceClassification(TinyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.tiny = TinyModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.tiny(input_ids, attention_mask=attention_mask)
        logits = self.classifier(self.dropout(outputs[1]))
        loss = None
        if labels is not None:
            loss = nn.CrossEntropyLoss()(logits.view(-1, self.num_labels), labels.view(-1))
        return SequenceClassifierOutput(loss=loss, logits=logits)
""",
}
HEAD = """import json
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
IMPORT


class Texts(Dataset):
    def __getitem__(self, i):
        ids = torch.tensor([(3 * i + k) % 50 for k in range(6)])
        return {"input_ids": ids, "attention_mask": (ids != 7).long(), "labels": torch.tensor(i % 2)}

    def __len__(self):
        return 12


loader = DataLoader(Texts(), batch_size=4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
losses = []
"""
WHOLE = """
model = TinyForSequenceClassification.from_pretrained("tiny-base", num_labels=2)
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
total = 2 * len(loader)
scheduler = SCHEDULE


def train(model, loader, optimizer, scheduler, device):
    model.train()
    for batch in loader:
        batch = {key: value.to(device) for key, value in batch.items()}
        optimizer.zero_grad()
        outputs = model(**batch)
        LOSS
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())


def evaluate(model, loader, device):
    model.eval()
    for batch in loader:
        with torch.no_grad():
            outputs = model(batch["input_ids"].to(device), attention_mask=batch["attention_mask"].to(device))
        losses.append(outputs[0].sum().item())


for epoch in range(2):
    train(model, loader, optimizer, scheduler, device)
    evaluate(model, loader, device)
json.dump(losses, open(sys.argv[1], "w"))
"""
PART = """

class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.tiny = TinyModel.from_pretrained("tiny-base")
        self.head = nn.Linear(self.tiny.config.hidden_size, classes)
        nn.init.eye_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, ids, mask):
        TAKEN
        return self.head(pooled) * torch.arange(1.0, 3.0, device=pooled.device)


model = Classifier(2).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=0, num_training_steps=len(loader))
loss_fn = nn.CrossEntropyLoss()
model.train()
for batch in loader:
    loss = loss_fn(model(batch["input_ids"].to(device), batch["attention_mask"].to(device)), batch["labels"].to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
json.dump(losses, open(sys.argv[1], "w"))
"""
SCHEDULES = {
    "get_linear_schedule_with_warmup": "get_linear_schedule_with_warmup(optimizer, 2, num_training_steps=total)",
    "get_cosine_schedule_with_warmup": "get_cosine_schedule_with_warmup(optimizer, 1, num_training_steps=total)",
    "get_scheduler": 'get_scheduler("linear", optimizer=optimizer, num_warmup_steps=0, num_training_steps=total)',
}
LOSSES = ("loss = outputs.loss", "loss = outputs[0]", 'loss, logits = outputs["loss"], outputs["logits"]')
TAKEN = (
    "pooled = self.tiny(input_ids=ids, attention_mask=mask).pooler_output",
    "pooled = self.tiny(ids, mask)[1]",
    "_, pooled = self.tiny(ids, attention_mask=mask, return_dict=False)",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for name, text in FILES.items():
        path = folder / "transformers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def losses_of_both(folder: Path, site: Path, text: str) -> tuple[list[float], list[float], str]:
    """The losses of a script and of its rewrite, which needs nobody, and the rewrite."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}

    def run(*command: str, where: Path = folder) -> str:
        made = subprocess.run([sys.executable, *command], cwd=where, env=env, capture_output=True, text=True)
        assert made.returncode == 0, made.stdout + made.stderr
        return made.stdout + made.stderr

    run("-m", "migrate", "rewrite", "train.py", "-o", "made")
    run("train.py", "theirs.json")
    run("train.py", "ours.json", where=folder / "made")
    theirs, ours = (json.loads(one.read_text()) for one in (folder / "theirs.json", folder / "made" / "ours.json"))
    return theirs, ours, (folder / "made" / "train.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(("schedule", "loss"), list(zip(SCHEDULES, LOSSES, strict=True)))
def test_a_whole_model_starts_from_published_weights(tmp_path: Path, site: Path, schedule: str, loss: str) -> None:
    head = HEAD.replace("IMPORT", f"from transformers import TinyForSequenceClassification, {schedule}")
    text = head + WHOLE.replace("SCHEDULE", SCHEDULES[schedule]).replace("LOSS", loss)
    theirs, ours, made = losses_of_both(tmp_path, site, text)
    assert len(theirs) == 12
    assert ours == pytest.approx(theirs, rel=2e-4, abs=1e-5)  # float32, six steps of Adam, sums of logits near zero
    assert "from transformers_tiny import TinyForSequenceClassification" in made


@pytest.mark.parametrize("taken", TAKEN)
def test_a_part_of_a_model_starts_from_published_weights(tmp_path: Path, site: Path, taken: str) -> None:
    head = HEAD.replace("IMPORT", "from transformers import TinyModel, get_linear_schedule_with_warmup")
    theirs, ours, _ = losses_of_both(tmp_path, site, head + PART.replace("TAKEN", taken))
    assert len(theirs) == 3
    assert ours == pytest.approx(theirs, rel=1e-4)  # float32, three steps of Adam


WEIGHTS_ALONE = """import json
import sys

import torch
import torch.nn as nn


class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8)

    def forward(self, x):
        return self.embed(x).sum(1)

    @classmethod
    def from_pretrained(cls, name):
        from transformers import TinyModel

        model = Mine()
        theirs = TAKEN
        weights = model.state_dict()
        for key in weights:
            with torch.no_grad():
                weights[key].copy_(theirs["embeddings.weight"])
        return model


model = Mine.from_pretrained("tiny")
with open(sys.argv[1], "w") as file:
    json.dump(model(torch.arange(6).view(2, 3)).flatten().tolist(), file)
"""


@pytest.mark.parametrize(
    "taken",
    [
        'TinyModel.from_pretrained("tiny").state_dict()',
        "published.state_dict()",
    ],
)
def test_a_model_that_only_gives_its_weights_stays_torchs(tmp_path: Path, site: Path, taken: str) -> None:
    text = WEIGHTS_ALONE.replace("TAKEN", taken)
    if taken.startswith("published"):
        text = text.replace(
            "        theirs =", '        published = TinyModel.from_pretrained("tiny")\n        theirs ='
        )
    theirs, ours, made = losses_of_both(tmp_path, site, text)
    assert ours == theirs
    assert "from transformers import TinyModel" in made and not (tmp_path / "made" / "transformers_tiny.py").exists()
