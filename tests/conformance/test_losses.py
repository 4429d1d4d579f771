"""Each loss module as a layer of three tensors: values and gradients in both frameworks."""

from __future__ import annotations

import pytest

from migrate.layers.layer import Sample
from migrate.optimizers import LOSSES
from tests.conformance import rewritten
from tests.conformance.run_layer import Pair, example_inputs, sample_source

PAIRS = "y: f32[5, 4]"
UNIT = "y: unit[5, 4]"
LABELS = "y: idx4[5]"
SIGNS = "y: f32[5, 4]; z: bool[5]"
TRIPLE = "y: f32[5, 4]; z: f32[5, 4]"
SAMPLES = (
    Sample("nn.MSELoss()", (5, 4), call="x, y", inputs=PAIRS),
    Sample("nn.MSELoss(reduction='none')", (5, 4), call="target=y, input=x", inputs=PAIRS),
    Sample("nn.MSELoss(reduce=False)", (5, 4), call="x, y", inputs=PAIRS),
    Sample("nn.CrossEntropyLoss(size_average=False)", (5, 4), call="x, y", inputs=LABELS),
    Sample("nn.L1Loss(reduction='sum')", (5, 4), call="x, y", inputs=PAIRS),
    Sample("nn.SmoothL1Loss(beta=0.5)", (5, 4), call="x, y", inputs=PAIRS),
    Sample("nn.HuberLoss(delta=0.5)", (5, 4), call="x, y", inputs=PAIRS),
    Sample("nn.CrossEntropyLoss(label_smoothing=0.1)", (5, 4), call="x, y", inputs=LABELS),
    Sample("nn.CrossEntropyLoss(label_smoothing=0.2)", (5, 4, 3), call="x, y", inputs="y: unit[5, 4, 3]"),
    Sample("nn.NLLLoss(ignore_index=2)", (5, 4), call="F.log_softmax(x, dim=1), y", inputs=LABELS),
    Sample("nn.BCELoss()", (5, 4), call="torch.sigmoid(x), y", inputs=UNIT),
    Sample("nn.BCEWithLogitsLoss(reduction='sum')", (5, 4), call="x, y", inputs=UNIT),
    Sample("nn.KLDivLoss(reduction='batchmean')", (5, 4), call="F.log_softmax(x, dim=1), y", inputs=UNIT),
    Sample("nn.PoissonNLLLoss()", (5, 4), call="x, y", inputs=UNIT),
    Sample("nn.GaussianNLLLoss(eps=1e-3)", (5, 4), call="x, y, z", inputs="y: f32[5, 4]; z: pos[5, 4]"),
    Sample("nn.SoftMarginLoss()", (5, 4), call="x, y * 2.0 - 1.0", inputs="y: bool[5, 4]"),
    Sample("nn.HingeEmbeddingLoss(margin=0.5)", (5, 4), call="x, torch.sign(y)", inputs=PAIRS),
    Sample("nn.MultiLabelSoftMarginLoss()", (5, 4), call="x, y", inputs=UNIT),
    Sample("nn.MultiMarginLoss(margin=0.5)", (5, 4), call="x, y", inputs=LABELS),
    Sample("nn.CosineEmbeddingLoss(0.2)", (5, 4), call="x, y, z * 2.0 - 1.0", inputs=SIGNS),
    Sample("nn.MarginRankingLoss(margin=0.5)", (5, 4), call="x, y, torch.sign(z)", inputs=TRIPLE),
    Sample("nn.TripletMarginLoss()", (5, 4), call="x, y, z", inputs=TRIPLE),
    Sample("nn.TripletMarginLoss(0.5, swap=True, reduction='none')", (5, 4), call="x, negative=z, positive=y",
           inputs=TRIPLE),
    Sample("nn.CTCLoss(blank=3)", (6, 2, 4), call="F.log_softmax(x, dim=2), y, (6, 4), (3, 2)", inputs="y: idx3[2, 3]"),
)  # fmt: skip


def test_each_loss_has_a_sample() -> None:
    named = {sample.constructor.partition("(")[0].replace("nn.", "torch.nn.") for sample in SAMPLES}
    assert named == set(LOSSES)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.constructor)
def test_loss(sample: Sample, float64: None) -> None:
    written = sample_source(sample)
    pair = Pair(written, rewritten.clean(written), "float64")
    found = [difference.what for difference in pair.differing(example_inputs(sample, "float64"), train=False)]
    assert not found, "\n".join(found)
