"""What functions of other packages give that take rows of tensors: `train_test_split` of scikit-learn."""

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import numpy as np
import torch
import torch.nn as nn
from sklearn.model_selection import train_test_split
from sklearn.utils import shuffle

device = "cuda" if torch.cuda.is_available() else "cpu"
X = torch.from_numpy(np.linspace(-1, 1, 40).reshape(20, 2)).type(torch.float)
y = (X.sum(dim=1) > 0).float()
X_train, X_test, y_train, y_test = SPLIT
model = nn.Linear(2, 1).to(device)
for p in model.parameters():
    nn.init.constant_(p, 0.3)
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
X_train, y_train = X_train.to(device), y_train.to(device)
X_test, y_test = X_test.to(device), y_test.to(device)
losses = []
for epoch in range(3):
    model.train()
    loss = loss_fn(model(X_train).squeeze(), y_train)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.inference_mode():
        losses.append([loss.item(), loss_fn(model(X_test).squeeze(), y_test).item()])
"""


@pytest.mark.parametrize(
    "split",
    [
        "train_test_split(X, y, test_size=0.2, random_state=42)",
        "[X[:16], X[16:], *train_test_split(y, shuffle=False, test_size=0.2)]",
        "[*shuffle(X, X, random_state=0), shuffle(y, random_state=0), y]",
    ],
)
def test_the_rows_of_tensors_are_tensors(split: str) -> None:
    theirs, ours = rewritten.both(SCRIPT.replace("SPLIT", split))
    # float32 on both sides, three steps of a small model
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


def test_the_example_is_what_the_name_stands_for() -> None:
    text = rewritten.clean(SCRIPT.replace("SPLIT", "train_test_split(X, y, random_state=0)")).text
    assert 'model.init(subkey, X_train)["params"]' in text


def test_rows_of_arrays_of_numpy_stay_what_they_are() -> None:
    split = "train_test_split(np.zeros((20, 2)), y.numpy())"
    found = rewritten.conversion(SCRIPT.replace("SPLIT", split)).report.diagnostics
    assert {one.code for one in found} == {"MIG306"}
