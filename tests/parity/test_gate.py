"""The gate on scripts: a port that is right, one with a mistake, and what it writes about them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from migrate.cli import app
from parity import gate, gate_cli, gate_config, gate_formats, gate_page, judge, tolerance
from parity.codes import ParityError
from parity.gate import GateResult, Judged
from parity.judge import Check
from parity.modes import with_modes
from parity.result import ParityResult
from tests.sarif import run_of

pytestmark = pytest.mark.usefixtures("runs_are_forked")

SCRIPTS = Path(__file__).parent / "scripts"
CONFIG = """
timeout = 300

[[subject]]
name = "right"
script = "right/train.py"
steps = 3
perturbed_runs = 0
modes = ["jit", "tpu", "bfloat16"]

[[subject]]
name = "wrong"
script = "wrong/train.py"
steps = 3
perturbed_runs = 0

[[budget]]
subject = "right"
tensor = "output of *"
ratio = 3.9
owner = "ada"
reason = "measured at 1.6 on two machines"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gate")
    for name in ("right", "wrong"):
        shutil.copytree(SCRIPTS / "mlp", folder / name)
    file = folder / "wrong" / "train_jax.py"
    text = file.read_text()
    assert "epsilon=1e-5" in text
    file.write_text(text.replace("epsilon=1e-5", "epsilon=1e-6"))
    (folder / "parity.toml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def result(project: Path) -> GateResult:
    return gate.run(gate_config.read(project / "parity.toml"))


def test_the_right_port_passes_and_the_wrong_one_fails_at_its_layer(result: GateResult, project: Path) -> None:
    right, wrong = result.judged
    assert result.exit_code == 1 and result.errors == ()
    assert right.status == "pass", [c.message for c in right.checks if c.status != "pass"]
    assert wrong.status == "fail"
    assert wrong.first is not None and wrong.first.rule == judge.SEMANTICS
    assert wrong.first.tensor == "output of Net.norm"
    assert wrong.jax_place is not None and wrong.torch_place is not None
    assert wrong.jax_place.file == str(project / "wrong" / "train_jax.py")
    assert "self.norm = nn.LayerNorm(epsilon=1e-6" in wrong.jax_place.text
    assert wrong.torch_place.text == "self.norm = nn.LayerNorm(hidden)"
    assert wrong.origin.startswith("it originates in Net.norm: given torch's inputs, its output still differs by")
    assert "torch's native_layer_norm (train.py:21) has no equal in JAX, which after div" in wrong.origin
    assert "rsqrt" in wrong.origin and wrong.origin.endswith("recording changed nothing")
    assert right.origin == ""


def test_what_was_compared(result: GateResult) -> None:
    right = result.judged[0]
    names = {check.tensor for check in right.checks}
    assert {"output of Net.fc1", "output of the model Net", "loss 1", "loss 3", "gradient of Net.fc2.weight"} <= names
    assert {check.rule for check in right.checks} == set(judge.RULES)
    assert any("output of Net.act" in note for note in right.notes)  # nn.gelu is no module of its own in JAX
    assert len(right.inputs) == 3 and all(len(digest) == 64 for digest in right.inputs.values())
    certificate = right.certificates[0]
    assert certificate["agreement"] < certificate["limit"]
    owned = {check.owner for check in right.checks if check.rule == judge.PRECISION and "output" in check.tensor}
    assert owned == {"ada"}


def test_the_products_of_an_accelerator_are_rounded_on_both_sides(result: GateResult) -> None:
    found = {
        check.mode: [float(x) for x in re.findall(r"error (\S+) times torch's own \((\S+)\)", check.message)[0]]
        for check in result.judged[0].checks
        if check.tensor == "output of the model Net" and check.rule == judge.PRECISION
    }
    assert found["float32-tpu"][1] > 1000 * found["float32-jit"][1]  # of 2**-9 against 2**-24
    assert 0.9 < found["float32-tpu"][0] < 1.1


def test_in_bfloat16_both_sides_round_and_two_is_the_limit(result: GateResult) -> None:
    checks = [check for check in result.judged[0].checks if check.mode == "bfloat16" and check.rule == judge.PRECISION]
    assert all(check.status == "pass" for check in checks)
    sizes = (tolerance.TINY, tolerance.SMALL, tolerance.LARGE)
    unsaid = {check.limit for check in checks if not check.tensor.startswith("output of ")}
    assert unsaid and unsaid <= {2 * size.times for size in sizes}
    outputs = [check for check in checks if check.tensor.startswith("output of Net.")]
    own = [float(re.findall(r"torch's own \((\S+)\)", check.message)[0]) for check in outputs]
    assert min(own) > 2.0**-13  # of float32 it would be near 2**-25


def test_a_mode_that_differs_is_a_finding(result: GateResult) -> None:
    right = result.judged[0].result
    judged = with_modes(right)
    assert judged.exit_code == 0 and [row.mode for row in judged.modes] == ["jit", "tpu", "bfloat16"]
    tensors = right.tensors["tpu"]
    name = "output of Net.fc1"
    off = replace(tensors, jax={**tensors.jax, name: tensors.jax[name] * 1.1})
    judged = with_modes(replace(right, tensors={**right.tensors, "tpu": off}))
    assert (judged.exit_code, judged.code, judged.passed) == (1, "PAR111", False)
    assert str(judged.first_difference).startswith(f"PAR111: in the mode tpu: {name}: error ")


def test_json(result: GateResult) -> None:
    data = json.loads(gate_formats.to_json(result))
    assert (data["format"], data["version"], data["verdict"], data["exit_code"]) == ("migrate-gate", 1, "fail", 1)
    assert {"migrate", "python", "machine", "XLA_FLAGS", "threads"} <= set(data["environment"])
    right, wrong = data["subjects"]
    assert right["first_divergence"] is None
    assert wrong["first_divergence"]["jax"]["file"].endswith("train_jax.py")
    assert {"torch", "jax", "flax"} <= set(right["versions"])
    assert right["options"]["steps"] == 3 and right["options"]["modes"] == ["jit", "tpu", "bfloat16"]
    assert len(right["losses"]) == 3


def test_junit(result: GateResult) -> None:
    root = ElementTree.fromstring(gate_formats.to_junit(result))
    assert int(root.get("tests", 0)) == len(result.checks)
    failed = root.findall(".//failure")
    assert int(root.get("failures", 0)) == len(failed) == sum(c.status == "fail" for c in result.checks)
    assert "output of Net.norm" in failed[0].get("message", "")


def test_sarif(result: GateResult, project: Path) -> None:
    run = run_of(gate_formats.to_sarif(result, project))
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(judge.RULES)
    (found,) = run["results"]
    assert found["ruleId"] == "PARITY-SEM" == run["tool"]["driver"]["rules"][found["ruleIndex"]]["id"]
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "wrong/train_jax.py"
    line = (project / "wrong" / "train_jax.py").read_text().splitlines()[place["region"]["startLine"] - 1]
    assert "nn.LayerNorm(epsilon=1e-6" in line
    assert found["partialFingerprints"]


def test_markdown_and_page(result: GateResult) -> None:
    text = gate_formats.to_markdown(result)
    assert "| wrong | fail |" in text and "least budget that passes" in text
    page = gate_page.to_html(result)
    assert page.count("<svg") == 8  # of both subjects: figures, losses, norms of gradients, distances of weights
    assert "{{" not in page
    assert not re.findall(r"""(?:src=|href=["']http|url\(["']?http|@import)""", page)  # whole by itself
    assert "First divergence: output of Net.norm" in page


# --- the ratchet, and what must never pass ---------------------------------------------------------------------------


def made(*checks: Check) -> GateResult:
    compared = ParityResult("train.py", "train_jax.py", True, 0)
    return GateResult((Judged("s", checks, compared),), environment=gate.environment())


def check(value: float, status: str = "pass", tensor: str = "y", rule: str = judge.PRECISION) -> Check:
    return Check("s", "float32-jit", tensor, rule, status, value, 4.0, f"{tensor}: {value}")


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ((), 2),
        ((check(1.0),), 0),
        ((check(1.0), check(5.0, "fail")), 1),
        ((check(1.0), check(1.0, "undecided")), 2),
        ((check(5.0, "fail"), check(1.0, "undecided")), 1),
    ],
)
def test_exit_codes(checks: tuple[Check, ...], code: int) -> None:
    assert made(*checks).exit_code == code
    assert made(*checks).headline.startswith(("PASS", "FAIL", "NOT DECIDED")[code])


def test_an_error_is_never_a_pass() -> None:
    assert replace(made(check(1.0)), errors=("PAR211: no baseline",)).exit_code == 2


@pytest.mark.parametrize(("value", "status"), [(2.2, "pass"), (2.4, "fail")])
def test_the_ratchet_allows_half_as_much_again(tmp_path: Path, value: float, status: str) -> None:
    path = tmp_path / "baseline.json"
    gate.write_baseline(made(check(1.5)), path)
    held = gate._ratcheted(made(check(value)).judged[0], gate._baseline(path))
    assert held.checks[0].status == status


def test_a_tensor_that_left_the_comparison_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    gate.write_baseline(made(check(1.5), check(1.5, tensor="z")), path)
    held = gate._ratcheted(made(check(1.5)).judged[0], gate._baseline(path))
    assert held.status == "undecided" and "z is in the baseline" in held.checks[1].message


def test_a_partial_run_keeps_the_baseline_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    gate.write_baseline(made(check(1.5)), path)
    other = made(replace(check(2.0), subject="t"))
    other = replace(other, judged=(replace(other.judged[0], name="t"),))
    gate.write_baseline(other, path, partial=True)
    assert sorted(gate._baseline(path).values()) == [1.5, 2.0]
    gate.write_baseline(other, path)
    assert list(gate._baseline(path).values()) == [2.0]


# --- the configuration -----------------------------------------------------------------------------------------------

SUBJECT = '[[subject]]\nscript = "a.py"\n'
BUDGET = '[[budget]]\nratio = 2\nowner = "ada"\nreason = "r"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no [[subject]]"),
        ("[[subject]]", "names either a script or a model"),
        (SUBJECT + 'model = "b.py:Net"', "names either a script or a model"),
        (SUBJECT + SUBJECT, "two subjects are called 'a.py'"),
        (SUBJECT + "stpes = 3", "unknown key 'stpes'"),
        (SUBJECT + "steps = true", "steps has the wrong type"),
        (SUBJECT + 'weights = "w.pt"', "weights means nothing for a script"),
        (SUBJECT + 'modes = ["fast"]', "unknown mode 'fast'"),
        (SUBJECT + "modes = []", "modes is empty"),
        (SUBJECT + BUDGET + "absolute = 1", "either a ratio to the oracle or an absolute"),
        (SUBJECT + BUDGET.replace('owner = "ada"\n', ""), "needs its owner"),
        (SUBJECT + BUDGET.replace('reason = "r"\n', ""), "needs its reason"),
        (SUBJECT + BUDGET + 'expires = "soon"', "expires has the wrong type"),
        ("subject = [", "Invalid"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "parity.toml"
    path.write_text(text)
    with pytest.raises(ParityError, match=re.escape(said)) as raised:
        gate_config.read(path)
    assert raised.value.code == "PAR211"


def test_the_table_of_a_pyproject(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text('[tool.migrate.gate]\nratchet = "base.json"\n[[tool.migrate.gate.subject]]\nscript = "a.py"\n')
    config = gate_config.read(path)
    assert config.ratchet == tmp_path / "base.json"
    assert config.subjects[0].torch_file == tmp_path / "a.py"
    assert config.subjects[0].jax_file == tmp_path / "a_jax.py"


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def ran(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, ["gate", *arguments])
    return outcome.exit_code, outcome.output


def test_without_a_configuration_nothing_is_decided(folder: Path) -> None:
    code, said = ran()
    assert code == 2 and "parity.toml: no such file" in said


def test_reports_of_an_earlier_run_are_removed(folder: Path) -> None:
    (folder / "out").mkdir()
    for name in gate_cli.OUTPUTS:
        (folder / "out" / name).write_text("from yesterday")
    (folder / "parity.toml").write_text("")
    code, _ = ran("--out", "out")
    assert code == 2 and list((folder / "out").iterdir()) == []


def test_a_missing_script_is_not_decided_and_reported(folder: Path) -> None:
    (folder / "parity.toml").write_text(SUBJECT + 'name = "s"\n')
    code, said = ran("--out", "out")
    assert code == 2 and "PAR211" in said and "a.py: no such script" in said
    assert {path.name for path in (folder / "out").iterdir()} == set(gate_cli.OUTPUTS)
    assert json.loads((folder / "out" / "gate.json").read_text())["verdict"] == "undecided"
    assert 'errors="1"' in (folder / "out" / "gate.junit.xml").read_text()
    run = run_of((folder / "out" / "gate.sarif").read_text())
    assert run["results"][0]["level"] == "warning"


def test_a_missing_baseline_is_not_a_pass(folder: Path) -> None:
    (folder / "parity.toml").write_text('ratchet = "base.json"\n' + SUBJECT)
    code, said = ran()
    assert code == 2 and "base.json" in said and "--update-baseline" in said


def test_an_unknown_subject_is_refused(folder: Path) -> None:
    (folder / "parity.toml").write_text(SUBJECT)
    code, said = ran("--only", "b.py")
    assert code == 2 and "no subject 'b.py'; there are a.py" in said


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    (folder / "parity.toml").write_text(SUBJECT)
    (folder / "file").write_text("")
    code, said = ran("--out", "file/out")
    assert code == 2 and "Not a directory" in said


def test_a_stale_rewrite_is_not_decided(folder: Path) -> None:
    shutil.copy(SCRIPTS / "mlp" / "train.py", folder / "a.py")
    (folder / "a_jax.py").write_text("# of an earlier version\n")
    (folder / "parity.toml").write_text(SUBJECT + "fresh = true\n")
    code, said = ran()
    assert code == 2 and "PAR215" in said


def test_a_budget_that_covers_nothing_is_not_a_pass() -> None:
    subject = made(check(1.0)).judged[0]
    for pattern, count in (("y", 0), ("x", 1)):
        budget = judge.Budget(tensor=pattern, ratio=2, owner="ada", reason="r")
        config = gate_config.GateConfig((), (budget,), path="parity.toml")
        assert len(gate._idle(config, [subject])) == count
