"""Reports: formats for machines, the page, what is selected, settings, surveys, and what parity has verified."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from migrate.cli import app
from migrate.files.source import parse
from migrate.pipeline import convert
from migrate.reporting.effort import estimate
from migrate.reporting.selection import suppressed
from migrate.reporting.survey import survey
from migrate.reporting.verdicts import digest
from tests.sarif import run_of

SCRIPT = """\
import torch

x = torch.ones(3, 3)
print(torch.lobpcg(x))
print(torch.special.bessel_j0(x))  # migrate: ignore[MIG301]
for i in range(3):
    x = torch.cat((x, x[:1]))
print("<b>&</b>")
"""
PLACE = 4  # the line of the finding
runner = CliRunner()


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("a script.py")
    path.write_text(SCRIPT)
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    done = runner.invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def found(script: Path, *options: str) -> list[str]:
    said = run("rewrite", script, "--check", "--format", "json", *options)[2]
    return [one["code"] for one in json.loads(said)["diagnostics"]]


def test_sarif(script: Path) -> None:
    log = run_of(run("rewrite", script, "--check", "--format", "sarif")[2])
    rules = [rule["id"] for rule in log["tool"]["driver"]["rules"]]
    error, note = sorted(log["results"], key=lambda result: result["level"])
    assert (error["ruleId"], error["level"], note["ruleId"], note["level"]) == ("MIG301", "error", "MIG501", "note")
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in log["results"])
    place = error["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20script.py"
    assert place["region"]["startLine"] == PLACE and place["region"]["snippet"]["text"] == "print(torch.lobpcg(x))"


def test_github_annotations(script: Path) -> None:
    error, note = run("rewrite", script, "--check", "--format", "github")[2].splitlines()
    assert error.startswith(f"::error file=a script.py,line={PLACE},col=1,title=MIG301 no rule for this torch API::")
    assert error.endswith("::torch.lobpcg") and note.startswith("::notice ")


def test_json_states_what_is_not_verified(script: Path) -> None:
    body = json.loads(run("rewrite", script, "--check", "--format", "json")[2])
    assert body["version"] == 1 and set(body["stages"].values()) == {"not verified"} and body["effort"] == "minutes"
    assert set(body["diagnostics"][0]) == {
        "path", "line", "column", "code", "severity", "message", "source", "help"
    }  # fmt: skip


class _Page(HTMLParser):
    """What a page asks of others, its rows, and whether its elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)
        for name, value in attrs:
            self.ids += [value or ""] * (name == "id")
            self.targets += [str(value)[1:]] * (name == "href" and str(value).startswith("#"))
            self.outside += [str(value)] * (name in ("src", "href") and not str(value).startswith("#"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_has_each_finding_at_its_line(script: Path) -> None:
    assert run("rewrite", script, "--check", "--page", "page.html")[0] == 1
    text = Path("page.html").read_text()
    page = _Page()
    page.feed(text)
    assert not page.open and not page.outside and "<script" not in text and "@import" not in text
    assert len(page.ids) == len(set(page.ids)) and page.targets and set(page.targets) <= set(page.ids)
    assert text.count("not verified") >= 3 and "minutes" in text
    assert "&lt;b&gt;&amp;&lt;/b&gt;" in text and "<b>&</b>" not in text
    row = text.index("lobpcg")
    assert text.index("class='remark error'", row) < text.index("bessel_j0", text.index("class='remark error'", row))


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ((), ["MIG301", "MIG501"]),
        (("--select", "MIG5"), ["MIG501"]),
        (("--ignore", "MIG301,MIG5"), []),
        (("--select", "MIG3", "--ignore", "MIG301"), []),
    ],
)
def test_findings_are_selected_by_code(script: Path, options: tuple[str, ...], codes: list[str]) -> None:
    assert found(script, *options) == codes


def test_what_is_ignored_does_not_fail_a_check(script: Path) -> None:
    assert run("rewrite", script, "--check")[0] == 1
    code, _, said = run("rewrite", script, "--check", "--ignore", "MIG301")
    assert code == 0 and "nothing shown here needs a person, 1 more left out of this report" in said
    code, _, said = run("rewrite", script, "--check", "--select", "MIG9999")
    assert code == 2 and "no code begins so" in said


@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        ("f(x)  # migrate: ignore", "MIG301", True),
        ("f(x)  # migrate: ignore[MIG301]", "MIG301", True),
        ("f(x)  #migrate:ignore[MIG2, MIG3]", "MIG301", True),
        ("f(x)  # migrate: ignore[MIG301]", "MIG302", False),
        ("f(x)  # migrate: ignore[]", "MIG301", False),
        ("f(x)", "MIG301", False),
    ],
)
def test_a_comment_suppresses_findings_of_its_line(line: str, code: str, expected: bool) -> None:
    assert suppressed(line, code) is expected


def test_settings_of_the_project(script: Path) -> None:
    Path("pyproject.toml").write_text('[tool.migrate]\nignore = ["MIG301"]\nexclude = ["old"]\nformat = "json"\n')
    code, _, said = run("rewrite", script, "--check")
    assert code == 0 and [one["code"] for one in json.loads(said)["diagnostics"]] == ["MIG501"]
    Path("old").mkdir()
    Path("old/b.py").write_text(SCRIPT)
    assert "old" not in run("report", ".")[1]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('ignor = ["MIG301"]', "has no key `ignor`; did you mean `ignore`?"),
        ('select = "MIG301"', "select must be a list of strings"),
        ('format = "xml"', "format must be one of text, json, sarif, github"),
        ("select = [", "pyproject.toml: "),
    ],
)
def test_settings_that_cannot_be_used(script: Path, table: str, message: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.migrate]\n{table}\n")
    for command in ("rewrite", "report"):
        code, _, said = run(command, script)
        assert code == 2 and message in said and "Traceback" not in said


def test_effort_grows_with_what_is_found() -> None:
    lines = "".join(f"print(torch.lobpcg(x, {i}))\n" for i in range(120))
    for count, expected in ((0, "none"), (2, "minutes"), (30, "hours"), (120, "redesign")):
        text = "import torch\nx = torch.ones(3, 3)\n" + "".join(lines.splitlines(keepends=True)[:count])
        assert estimate(convert(parse("a.py", text)).report.diagnostics) == expected


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    files = {
        "one.py": SCRIPT,
        "model.py": "import torch.nn as nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n",
        "train.py": "from model import Net\n\nprint(Net())\n",
        "plain.py": "print(1)\n",
        "broken.py": "import torch\nx = = 1\n",
        "book.ipynb": json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_survey_says_what_a_conversion_would_find_and_writes_nothing(repository: Path) -> None:
    before = sorted(path.name for path in repository.iterdir())
    code, said, _ = run("report", ".", "-j", "1")
    assert code == 1 and sorted(path.name for path in repository.iterdir()) == before
    assert "6 files, 4 with torch" in said and "      1  MIG301  torch.lobpcg" in said and "one.py" in said
    assert "one.py:4:" not in said and "one.py:4:" in run("report", ".", "-j", "1", "--all")[1]
    body = json.loads(run("report", ".", "-j", "1", "--format", "json")[1])
    assert body["codes"]["MIG001"] == 1 and body["looked_at"] == 6
    by_path = {file["path"]: file for file in body["files"]}
    assert by_path["one.py"]["needs_a_person"] == 1 and "plain.py" not in by_path
    assert "::error file=broken.py" in run("report", ".", "-j", "1", "--format", "github")[1]


def test_a_survey_in_several_processes_finds_the_same(repository: Path) -> None:
    files = sorted(repository.glob("*.py"))
    assert survey(files, jobs=2) == survey(files, jobs=1)


@pytest.mark.parametrize(("path", "message"), [("none", "no such file or folder"), (".", "holds no Python file")])
def test_nothing_to_survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = run("report", path)
    assert code == 2 and message in said


CLEAN = "import torch\n\nx = torch.ones(3)\nprint(x)\n"


def parity_report(script: Path, **changes: object) -> Path:
    """What parity writes of a script, as far as it is read."""
    text = script.read_text()
    after = convert(parse(script.name, text)).text
    verdicts = ("outputs", "loss", "gradients", "state", "update")
    body = {
        "format": "migrate-parity",
        "digests": {"script": digest(text.encode()), "rewritten": digest(after.encode())},
        "passed": True,
        "errors": [],
        "steps": [{}] * 20,
        "rungs": [{"name": name, "verdict": "equal"} for name in verdicts],
        "first_difference": None,
    }
    path = script.with_suffix(".json")
    path.write_text(json.dumps(body | changes))
    return path


def stages(script: Path, report: Path) -> dict[str, str]:
    code, _, said = run("rewrite", script, "--check", "--verified", report, "--format", "json")
    assert code in (0, 1), said
    return json.loads(said)["stages"]


def test_parity_turns_not_verified_into_a_verdict(script: Path) -> None:
    script.write_text(CLEAN)
    verified = stages(script, parity_report(script))
    assert verified["numeric"] == "verified" and verified["behavioural"] == "verified over 20 steps"
    assert verified["spec"].startswith("verified")
    said = run("rewrite", script, "--check", "--verified", parity_report(script))[2]
    assert "behavioural: verified over 20 steps" in said and "not verified" not in said
    differs = [{"name": "outputs", "verdict": "equal"}, {"name": "gradients", "verdict": "differs"}]
    first = "PAR103: gradients of fc"
    told = stages(script, parity_report(script, rungs=differs, passed=False, first_difference=first))
    assert told["numeric"] == f"differs: {first}" and told["behavioural"] == "not verified"
    stopped = stages(script, parity_report(script, passed=False, errors=["PAR206"], steps=[], rungs=[]))
    assert set(stopped.values()) == {"not verified"}


def test_a_script_that_needs_a_person_is_not_verified_whole(script: Path) -> None:
    assert stages(script, parity_report(script))["spec"] == "not verified"


def test_a_report_of_another_version_verifies_nothing(script: Path) -> None:
    script.write_text(CLEAN)
    report = parity_report(script)
    script.write_text(CLEAN + "print(x + 1)\n")
    code, _, said = run("rewrite", script, "--check", "--verified", report)
    assert code == 2 and "another version" in said
    report.write_text("{}")
    code, _, said = run("rewrite", script, "--check", "--verified", report)
    assert code == 2 and "is no report of" in said
