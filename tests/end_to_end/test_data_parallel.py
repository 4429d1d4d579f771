"""Scripts over a mesh of devices: four of them compute what one computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from migrate.cli import app

GOLDEN = Path(__file__).parents[1] / "golden"


def printed(script: Path, devices: int) -> list[float]:
    """The numbers that a script prints on so many devices; a warning would be an error."""
    environment = os.environ | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    done = subprocess.run(
        [sys.executable, "-W", "error", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


def one_program(folder: Path) -> Path:
    """The golden script that was written for several processes."""
    return GOLDEN / "data_parallel" / "after.py"


def option(folder: Path) -> Path:
    """A script that knows of one device, rewritten for all."""
    script = folder / "parallel.py"
    done = CliRunner().invoke(
        app, ["rewrite", "--data-parallel", str(GOLDEN / "streams" / "before.py"), "-o", str(script)]
    )
    assert done.exit_code == 0, done.output
    return script


@pytest.mark.parametrize("written", [one_program, option])
def test_four_devices_compute_what_one_computes(tmp_path: Path, written: object) -> None:
    """Sums over a batch are added up in another order: a few spacings of float32, here after six steps."""
    assert callable(written)
    script = written(tmp_path)
    one, four = printed(script, 1), printed(script, 4)
    assert len(one) >= 2
    np.testing.assert_allclose(four, one, rtol=64 * np.finfo(np.float32).eps)


def test_batches_are_on_every_device(tmp_path: Path) -> None:
    """What the snippets do: rows are split where they can be shared equally, weights are everywhere."""
    script = tmp_path / "placed.py"
    script.write_text(
        "import jax, numpy as np\n"
        "from migrate.snippets.split_batch import split_batch\n"
        "from migrate.snippets.on_all_devices import on_all_devices\n"
        "x, odd = split_batch(np.ones((8, 3))), split_batch(np.ones((7, 3)))\n"
        "print(x.addressable_shards[0].data.shape[0], odd.addressable_shards[0].data.shape[0])\n"
        "w = on_all_devices({'w': np.ones((8, 3))})['w']\n"
        "print(len(w.addressable_shards), w.addressable_shards[3].data.shape[0])\n"
    )
    assert printed(script, 4) == [2, 7, 4, 8]
