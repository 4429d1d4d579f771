"""What is torch's, and what the output needs, under the names that a script gives."""

from migrate.files.source import parse
from migrate.pipeline import convert


def converted(script: str) -> str:
    conversion = convert(parse("train.py", script))
    assert not conversion.report.diagnostics, conversion.report.as_text()
    return conversion.text


def test_torch_may_be_imported_after_another_module() -> None:
    assert "jnp.sin(jnp.ones(3))" in converted("import os, torch\nprint(os.getcwd(), torch.sin(torch.ones(3)))\n")


def test_functions_of_torch_by_another_name_are_followed() -> None:
    text = converted("import torch\nsine = torch.sin\nprint(sine(torch.ones(3)))\n")
    assert text == "import jax.numpy as jnp\nprint(jnp.sin(jnp.ones(3)))\n"


def test_the_base_of_modules_by_another_name() -> None:
    script = "from torch import nn\nBase = nn.Module\n\n\nclass Net(Base):\n    pass\n\n\n"
    text = converted(script + "print(isinstance(Net, nn.Module))\n")
    assert "class Net(nn.Module):" in text and "isinstance(Net, nn.Module)" in text and "Base" not in text


def test_a_class_of_the_script_keeps_a_name_that_the_output_would_import() -> None:
    text = converted(
        "from torch import nn\n\n\nclass Sequence(nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    assert "import Sequence" not in text


def test_data_of_torch_stay_torch_where_no_weights_are_kept() -> None:
    script = "import torch\nrows = torch.load('rows.pt')\nprint(torch.from_numpy(rows[:, 0]).sum())\n"
    assert "rows = torch.load('rows.pt')\nprint(jnp.asarray(rows[:, 0]).sum())" in converted(script)
    assert "serialization.msgpack_restore" in converted(script + "torch.save({'rows': torch.ones(3)}, 'kept.pt')\n")


def test_an_old_name_of_a_sparse_tensor() -> None:
    text = "import torch\n\ny = torch.arange(3)\nx = torch.sparse.FloatTensor(y[None], y.float(), torch.Size([3]))\n"
    assert ".at[tuple(y[None])]" in converted(text)


def test_a_lambda_that_hands_on_what_it_is_given_cannot_be_a_value() -> None:
    script = "import torch\nflat = lambda x, *args: x.reshape(*args)\n"
    assert converted(f"{script}print(flat(torch.ones(2, 3), 3, 2))\n") == (
        "import jax.numpy as jnp\nprint(jnp.ones((2, 3)).reshape(3, 2))\n"
    )
    found = convert(parse("train.py", f"{script}print(list(map(flat, torch.ones(2, 3))))\n")).report.diagnostics
    assert [one.code for one in found] == ["MIG304"]


def test_a_lambda_without_a_name_is_not_left_with_another_variance() -> None:
    script = "import torch\ntable = {'a': lambda t: t.var()}\nprint(table['a'](torch.ones(3)))\n"
    assert [one.code for one in convert(parse("train.py", script)).report.diagnostics] == ["MIG306"]


def test_a_name_of_torch_that_is_a_statement_goes() -> None:
    text = converted("import torch\n\ntorch.nn.BCELoss\ntorch.__version__\nprint(torch.ones(3))\n")
    assert text == "import jax\nimport jax.numpy as jnp\n\njax.__version__\nprint(jnp.ones(3))\n"
