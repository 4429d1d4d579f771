"""Whole comparisons: pairs of scripts that are equal, and seeded mistakes with the first difference to be named."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from parity import processes, report
from parity.compare import compare_script
from parity.ladder import Verdict
from parity.record import Recording, RunConfig
from parity.result import ParityResult

SCRIPTS = Path(__file__).parent / "scripts"


class Remembered:
    """A run of torch that some test made before, in the place of the process."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def recording(self, *, must: bool = True) -> Recording:
        return self._recording

    def end(self) -> None:
        pass


@pytest.fixture(autouse=True, scope="module")
def torch_runs_once(tmp_path_factory: pytest.TempPathFactory, runs_are_forked: None) -> Iterator[None]:
    """Torch repeats itself to the last bit: what the same script did with the same configuration is not run again."""
    original, kept = processes.start, tmp_path_factory.mktemp("torch")

    def start(side: str, command: Sequence[str], folder: Path, *rest: Any) -> Any:
        config = RunConfig.read(command[-1])
        timeout = rest[-1]
        if not side.startswith("torch") or config.prelude or timeout < 60:
            return original(side, command, folder, *rest)
        sources = sorted(p for p in Path(config.root or "").rglob("*.py") if "jax" not in p.name)
        told = replace(config, script="", cwd="", out="", root=None)
        place = kept / hashlib.sha256("\0".join([repr(told), *(p.read_text() for p in sources)]).encode()).hexdigest()
        if place.is_dir():
            shutil.copytree(place, config.out)
            return Remembered(Recording.load(place))
        child = original(side, command, folder, *rest)
        recording = child.recording(must=False)
        if not recording.error:
            shutil.copytree(config.out, place)
        return Remembered(recording) if not recording.error else child

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "start", start)
        yield


def _project(tmp_path: Path, name: str, *edits: tuple[str, str, str]) -> Path:
    """A copy of a pair of scripts with (file, old, new) replaced."""
    folder = tmp_path / name
    shutil.copytree(SCRIPTS / name, folder)
    for file, old, new in edits:
        text = (folder / file).read_text()
        assert old in text, f"{old!r} is not in {name}/{file}"
        (folder / file).write_text(text.replace(old, new))
    return folder


def _compare(folder: Path, **options) -> ParityResult:
    options.setdefault("perturbed_runs", 1)
    options.setdefault("float64", False)
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    result = compare_script(folder / "train.py", folder / "train_jax.py", folder / "weights.json", **options)
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == before, (
        "a run wrote into the user's folder"
    )
    return result


@pytest.mark.parametrize(
    ("name", "steps", "argv", "taken"),
    [
        ("mlp", 20, (), 12),
        ("conv", 6, (), 6),
        ("vae", 7, (), 7),
        ("gan", 15, (), 15),
        ("main_args", 4, ("--width", "5", "--epochs", "3"), 4),
    ],
)
def test_equal(tmp_path: Path, name: str, steps: int, argv: tuple[str, ...], taken: int) -> None:
    result = _compare(_project(tmp_path, name), steps=steps, argv=argv)
    assert result.errors == ()
    assert result.first_difference is None
    assert result.passed and result.exit_code == 0
    assert len(result.steps) == taken
    assert [rung.verdict for rung in result.rungs] == [Verdict.EQUAL] * 5
    ended_early = [note for note in result.notes if note.startswith("PAR108")]
    assert ended_early == ([] if taken == steps else [f"PAR108: both scripts ended after {taken} of {steps} steps"])


def test_gradients_taken_by_a_function_are_a_step(tmp_path: Path) -> None:
    taken = """grads = torch.autograd.grad(loss, list(model.parameters()))
        for p, g in zip(model.parameters(), grads):
            p.grad = g"""
    result = _compare(_project(tmp_path, "mlp", ("train.py", "loss.backward()", taken)), steps=3)
    assert result.errors == () and len(result.steps) == 3
    assert [rung.verdict for rung in result.rungs] == [Verdict.EQUAL] * 5


NAMED = {
    "a dict": ("", '{"logits": self.fc3(x), "hidden": x}', '["logits"]'),
    "a dataclass": (
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Output:\n    logits: object\n"
        "    hidden: object\n\n\n",
        "Output(self.fc3(x), x)",
        ".logits",
    ),
}


@pytest.mark.parametrize("output", NAMED)
def test_outputs_with_names(tmp_path: Path, output: str) -> None:
    """JAX has the entries of a dict in the order of their keys, and no arrays of a dataclass that it does not know."""
    definition, made, taken = NAMED[output]
    edits = [(file, "return self.fc3(x)", f"return {made}") for file in ("train.py", "train_jax.py")]
    edits += [
        ("train.py", "class Net(", f"{definition}class Net("),
        ("train_jax.py", "class Net(", f"{definition}class Net("),
    ]
    edits += [("train.py", "model(inputs)", f"model(inputs){taken}")]
    edits += [("train_jax.py", 'rngs={"dropout": key})', f'rngs={{"dropout": key}}){taken}')]
    result = _compare(_project(tmp_path, "mlp", *edits), steps=2)
    assert result.errors == () and result.first_difference is None
    assert result.rungs[0].verdict is Verdict.EQUAL


MISTAKES = {
    "another epsilon": (
        "mlp",
        [("train_jax.py", "epsilon=1e-5", "epsilon=1e-6")],
        "PAR101: output of Net.norm: ",
    ),
    "GELU by tanh": (
        "mlp",
        [("train_jax.py", "x = nn.gelu(self.fc2(x), approximate=False)", "x = nn.gelu(self.fc2(x))")],
        "PAR101: output of Net.fc3: ",
    ),
    "a bias left out": (
        "mlp",
        [("train_jax.py", "self.fc2 = nn.Dense(self.hidden)", "self.fc2 = nn.Dense(self.hidden, use_bias=False)")],
        "PAR203: train_jax.py: Net: the manifest fills params/fc2/bias, which the rewritten model lacks",
    ),
    "a bias left out, and out of the manifest": (
        "mlp",
        [
            ("train_jax.py", "self.fc2 = nn.Dense(self.hidden)", "self.fc2 = nn.Dense(self.hidden, use_bias=False)"),
            (
                "weights.json",
                '    {"flax": "params/fc2/bias", "torch": "fc2.bias", "moves": [], "shape": [null]},\n',
                "",
            ),
            ("weights.json", '"unused": []', '"unused": [{"torch": "fc2.bias", "reason": "a mistake"}]'),
        ],
        "PAR101: output of Net.fc2: ",
    ),
    "a square kernel not transposed": (
        "mlp",
        [("weights.json", '"fc2.weight", "moves": [["permute", 1, 0]]', '"fc2.weight", "moves": []')],
        "PAR101: output of Net.fc2: ",
    ),
    "a kernel not transposed": (
        "mlp",
        [
            (
                "weights.json",
                '"fc3.weight", "moves": [["permute", 1, 0]], "shape": [null, 3]',
                '"fc3.weight", "moves": [], "shape": [null, null]',
            )
        ],
        "PAR204: train_jax.py: Net: params/fc3/kernel has the shape (12, 3), the ported weight (3, 12)",
    ),
    "dropout after the flatten": (
        "conv",
        [
            (
                "train_jax.py",
                "x = self.drop(self.features(x.transpose(0, 2, 3, 1)))",
                "x = self.features(x.transpose(0, 2, 3, 1))",
            ),
            (
                "train_jax.py",
                "x = x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)",
                "x = self.drop(x.reshape(x.shape[0], -1))",
            ),
        ],
        "PAR101: output of Net.fc: ",
    ),
    "a loss over another mean": (
        "vae",
        [("train_jax.py", "kld = -0.5 * (1 + logvar - mu**2 - jnp.exp(logvar)).sum()", "kld = 0.0")],
        "PAR102: loss at step 1: ",
    ),
    "a gradient stopped": (
        "vae",
        [("train_jax.py", "return mu + eps * std", "return mu + eps * jax.lax.stop_gradient(std)")],
        "PAR103: gradient of VAE.fc1.",
    ),
    "another learning rate": (
        "mlp",
        [("train_jax.py", "optax.adamw(1e-2", "optax.adamw(1.01e-2")],
        "PAR104: Net.fc1.bias before step 2: ",
    ),
    "weight decay forgotten": (
        "mlp",
        [("train_jax.py", "optax.adamw(1e-2, weight_decay=0.1)", "optax.adam(1e-2)")],
        "PAR104: Net.fc1.",
    ),
    "a biased running variance": (
        "conv",
        [("train_jax.py", "0.1 * batch_var * n / (n - 1)", "0.1 * batch_var")],
        "PAR104: Net.features.1.running_var before step 2: ",
    ),
    "the second optimizer's learning rate": (
        "gan",
        [("train_jax.py", "optimizer_g = optax.adam(1e-3", "optimizer_g = optax.adam(1.01e-3")],
        "PAR104: Generator.main.0.weight before step 5: ",
    ),
    "no clipping": (
        "main_args",
        [("train_jax.py", "jnp.minimum(0.5 / (norm + 1e-6), 1.0)", "1.0")],
        "PAR104: Regressor.hidden.bias before step 3: ",
    ),
    "a schedule one epoch late": (
        "main_args",
        [("train_jax.py", "0.5 ** (epoch // 2)", "0.5 ** (epoch // 3)")],
        "PAR105: loss at step 7: ",
    ),
    "an epoch less": (
        "main_args",
        [("train_jax.py", "range(args.epochs)", "range(args.epochs - 1)")],
        "PAR106: torch took 10 steps, the rewrite 8",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_seeded_mistake_is_found_and_its_place_named(tmp_path: Path, mistake: str) -> None:
    name, edits, expected = MISTAKES[mistake]
    result = _compare(_project(tmp_path, name, *edits), steps=10)
    assert result.first_difference is not None, result.errors
    assert result.first_difference.replace(f"{tmp_path / name}/", "").startswith(expected)
    assert (result.passed, result.exit_code) == (False, 1)


CRASHES = {
    "torch, at once": ("train.py", "model = VAE()", "model = VAE().missing", "PAR201", "has no attribute 'missing'"),
    "the rewrite, at once": (
        "train_jax.py",
        "model = VAE()",
        "model = VAE().missing",
        "PAR206",
        "failed with AttributeError",
    ),
    "the rewrite, after equal steps": (
        "train_jax.py",
        "    key, step_key",
        "    assert step < 3, 'three'\n    key, step_key",
        "PAR206",
        "failed after 3 steps with AssertionError",
    ),
    "no step at all in torch": (
        "train.py",
        "for step in range(12)",
        "for step in range(0)",
        "PAR207",
        "no loss.backward()",
    ),
    "no step at all in the rewrite": (
        "train_jax.py",
        "for step in range(12)",
        "for step in range(0)",
        "PAR207",
        "no jax.",
    ),
    "another class": (
        "weights.json",
        '"class": "VAE"',
        '"class": "Other"',
        "PAR205",
        "does not describe the model VAE",
    ),
    "a manifest that is none": ("weights.json", "migrate-weights", "something", "PAR211", "is this a weight manifest?"),
}


@pytest.mark.parametrize("crash", CRASHES)
def test_what_cannot_be_run_is_told_in_one_message(tmp_path: Path, crash: str) -> None:
    file, old, new, code, message = CRASHES[crash]
    result = _compare(_project(tmp_path, "vae", (file, old, new)), steps=5)
    assert (result.passed, result.exit_code, result.code) == (False, 2, code)
    assert len(result.errors) == 1 and message in result.errors[0]
    assert "parity/" not in result.errors[0], "the frames of the harness are none of the user's business"
    assert "/run/" not in result.errors[0], "nor is the copy that the script ran in"


def test_a_step_is_held_against_its_program_in_high_precision(tmp_path):
    """What is rounded on the way is off by more than torch is, and too little to show between the two."""
    wider = (("train.py", "hidden=12", "hidden=64"), ("train_jax.py", "hidden: int = 12", "hidden: int = 64"))
    rounded = ("train_jax.py", "self.fc1(x)", "jax.lax.reduce_precision(self.fc1(x), 8, 18)")
    result = _compare(_project(tmp_path, "mlp", *wider, rounded), steps=2, oracle="flint")
    assert all(rung.verdict is Verdict.EQUAL for rung in result.rungs)
    assert result.code == "PAR112" and result.exit_code == 1
    assert str(result.first_difference).startswith("PAR112: output of Net.norm: error ")
    assert result.exact is not None and "certified within" in result.exact.oracle
    assert [row.kind for row in result.exact.rows] == ["outputs", "loss", "gradients"]
    outputs, loss, _ = result.exact.rows
    assert outputs.ratio > outputs.limit and outputs.torch < 5e-7 < outputs.jax < 5e-6
    assert loss.ratio <= loss.limit and loss.torch < 1e-6 and loss.jax < 1e-6


def test_what_the_oracle_cannot_evaluate_decides_nothing(tmp_path):
    unknown = (
        "train_jax.py",
        "return self.fc3(x)",
        "return self.fc3(x) + 0 * jax.scipy.special.gammainc(1.0, x.sum() ** 2)",
    )
    result = _compare(_project(tmp_path, "mlp", unknown), steps=1, oracle="flint", perturbed_runs=0)
    assert result.passed and result.exact is not None
    assert result.exact.undecided == "the primitive 'igamma' is not known to the interpreter"
    assert result.verdicts[-1].verdict is Verdict.NOT_COMPARED


def test_losses_of_zero_decide_nothing(tmp_path: Path) -> None:
    """A rewrite that trains nothing would show them, too."""
    zero = [(file, "loss = ", "loss = 0.0 * ") for file in ("train.py", "train_jax.py")]
    result = _compare(_project(tmp_path, "mlp", *zero), steps=2)
    assert (result.passed, result.exit_code, result.code) == (False, 2, "PAR114")


def test_a_crash_after_a_difference_is_a_difference(tmp_path: Path) -> None:
    edits = [
        ("train_jax.py", "1e-3", "1e-2"),
        ("train_jax.py", "    key, step_key", "    assert step < 3\n    key, step_key"),
    ]
    result = _compare(_project(tmp_path, "vae", *edits), steps=5)
    assert result.exit_code == 1 and result.code == "PAR104"
    assert "AssertionError" in result.errors[0]


@pytest.mark.parametrize("missing", ["train.py", "train_jax.py", "weights.json"])
def test_a_missing_file(tmp_path: Path, missing: str) -> None:
    folder = _project(tmp_path, "vae")
    (folder / missing).unlink()
    result = _compare(folder)
    assert result.exit_code == 2 and missing in result.errors[0] and "no such" in result.errors[0]


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    folder = _project(tmp_path, "vae", ("train.py", "model = VAE()", "import time; time.sleep(600)"))
    result = _compare(folder, timeout=5)
    assert (result.exit_code, result.code) == (2, "PAR209")
    assert result.errors == ("PAR209: the torch run was ended after 5 s",)


def test_a_rewritten_file_elsewhere_a_prelude_and_a_kept_work_folder(tmp_path: Path) -> None:
    """The rewrite lies in another folder and still finds the data; the prelude runs first on both sides."""
    folder = _project(
        tmp_path, "main_args", ("train.py", "scale = float(file.read())", "scale = float(file.read()) * SCALE")
    )
    out = tmp_path / "out"
    out.mkdir()
    for name in ("train_jax.py", "weights.json"):
        (folder / name).rename(out / name)
    rewritten = (out / "train_jax.py").read_text().replace("float(file.read())", "float(file.read()) * SCALE")
    (out / "train_jax.py").write_text(rewritten)
    prelude = tmp_path / "prelude.py"
    prelude.write_text("import builtins\nbuiltins.SCALE = 2.0\n")
    work = tmp_path / "work"
    paths = (folder / "train.py", out / "train_jax.py", out / "weights.json")
    result = compare_script(*paths, steps=4, prelude=prelude, workdir=work)
    assert result.exit_code == 0, (result.errors, result.first_difference)
    assert (work / "torch" / "recording" / "recording.json").is_file()
    assert (work / "jax" / "run" / "data" / "scale.txt").is_file()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ParityResult]:
    base = tmp_path_factory.mktemp("reports")
    different = ("train_jax.py", "optax.adam(1e-3)", "optax.adam(2e-3)")
    broken = ("train_jax.py", "import optax", "import optax_that_is_missing")
    return {
        "equal": _compare(_project(base / "a", "vae"), steps=5),
        "differs": _compare(_project(base / "b", "vae", different), steps=5),
        "broken": _compare(_project(base / "c", "vae", broken), steps=5),
    }


def _printed(result: ParityResult) -> str:
    text = io.StringIO()
    report.render(result, Console(file=text, width=120))
    return text.getvalue()


def test_what_is_printed(results: dict[str, ParityResult]) -> None:
    equal, differs, broken = map(_printed, results.values())
    assert "EQUAL over 5 steps" in equal and "worst drift" in equal
    assert equal.count(" equal ") == 5
    assert f"{results['equal'].steps[4].torch:.8g}" in equal
    assert "DIFFERS" in differs and "first difference: PAR104: VAE.fc1." in differs and "not reached" in differs
    assert "COULD NOT COMPARE" in broken and "optax_that_is_missing" in broken and "PAR206" in broken


def test_json(results: dict[str, ParityResult]) -> None:
    data = json.loads(report.to_json(results["differs"]))
    assert data["format"] == "migrate-parity" and data["version"] == 1
    assert data["exit_code"] == 1 and data["first_difference"].startswith("PAR104")
    assert [step["step"] for step in data["steps"]] == [1, 2, 3, 4, 5]
    state = next(rung for rung in data["rungs"] if rung["name"] == "state after one step")
    assert any(row["differs"] for row in state["rows"])
    assert json.loads(report.to_json(results["broken"]))["steps"] == []


@pytest.mark.parametrize("name", ["equal", "differs", "broken"])
def test_the_page_is_whole_and_self_contained(results: dict[str, ParityResult], name: str, tmp_path: Path) -> None:
    result = results[name]
    report.write_html(result, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "{{" not in page and page.rstrip().endswith("</html>")
    assert "<script" not in page and "href=" not in page.replace("xlink:href=", "")
    assert ("<svg" in page) == bool(result.steps)
    for step in result.steps:
        assert f"{step.jax:.9g}" in page
    if result.first_difference:
        assert result.first_difference.split(":")[1].strip() in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
