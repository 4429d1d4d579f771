"""The GitHub Action and the pre-commit hooks: their scripts run, with a stand-in for the command."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from migrate.cli import app
from parity.gate_cli import OUTPUTS

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: dict[str, Any] = {step["name"]: step for step in ACTION["runs"]["steps"]}
GUIDE = (ROOT / "docs" / "guides" / "gate.md").read_text()


def command(tmp_path: Path, code: int) -> None:
    """A `migrate` that notes its arguments, writes a summary and ends with `code`."""
    script = '#!/bin/sh\nprintf "%s\\n" "$@" > asked\nmkdir -p "$3" && echo "### summary" > "$3/gate.md"\n'
    file = tmp_path / "bin" / "migrate"
    file.parent.mkdir()
    file.write_text(f"{script}exit {code}\n")
    file.chmod(0o755)


def run(step: str, folder: Path, **variables: str) -> int:
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", **variables}
    environment |= {"GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    # what GitHub runs for `shell: bash`
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]]
    return subprocess.run(shell, cwd=folder, env=environment, check=False).returncode


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_verdict_is_the_exit_code_and_the_reports_come_first(tmp_path: Path, code: int) -> None:
    command(tmp_path, code)
    assert run("Gate", tmp_path, CONFIG="a b.toml", ONLY="one\ntwo x\n", OUT="out", TIMEOUT="60") == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [
        "gate",
        "--out",
        "out",
        "--config",
        "a b.toml",
        "--timeout",
        "60",
        "--only",
        "one",
        "--only",
        "two x",
    ]
    assert (tmp_path / "output").read_text() == f"exit-code={code}\n"
    assert (tmp_path / "summary").read_text() == "### summary\n"
    assert run("Verdict", tmp_path, CODE=str(code)) == code


def test_without_a_verdict_the_job_fails(tmp_path: Path) -> None:
    assert run("Verdict", tmp_path, CODE="") == 2


def test_an_input_is_never_part_of_a_script() -> None:
    """`${{ inputs.x }}` in a script would be run by the shell, whatever it says."""
    assert not [name for name, step in STEPS.items() if "${{" in step.get("run", "")]
    assert list(STEPS)[-1] == "Verdict" and STEPS["Verdict"]["if"] == "always()"


def test_every_input_is_used_and_described() -> None:
    text = (ROOT / "action.yml").read_text()
    for name, entry in ACTION["inputs"].items():
        assert f"inputs.{name}" in text, name
        assert entry["description"].endswith(".")


def test_hooks_call_commands_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    known = {entry.name or entry.callback.__name__ for entry in app.registered_commands if entry.callback}
    for hook in hooks:
        program, sub_command, *_ = hook["entry"].split()
        assert program == "migrate" and sub_command in known
        assert hook["id"] in GUIDE


def test_the_guides_workflow_uses_what_the_action_has() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    workflow = next(
        parsed for block in blocks if isinstance(parsed := yaml.safe_load(block), dict) and "jobs" in parsed
    )
    (job,) = workflow["jobs"].values()
    uses = next(step for step in job["steps"] if "migrate@" in step.get("uses", ""))
    assert set(uses["with"]) <= set(ACTION["inputs"])
    assert job["permissions"]["security-events"] == "write"
    assert all(name in GUIDE for name in OUTPUTS)
