"""One script through the three stages: rewritten with nothing left for a person, the numbers equal, the curve equal.

A model takes four steps of gradient descent. What leaves findings is compared all the same, since what they are about
may not be reached; it stays at the stage of findings.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.corpus.entries import Entry

RECIPES = Path(__file__).with_name("recipes")
# A project may have a tests.py of its own, which a folder without __init__.py gives way to wherever it is on the path.
PRELUDE = """import os, sys
path = list(sys.path)
sys.path[:] = [{root!r}, *(folder for folder in path if not os.path.exists(os.path.join(folder, "tests.py")))]
from tests.corpus import standins, setups
sys.path[:] = path
standins.install({setup!r})
"""
NUMERIC = ("outputs", "loss", "gradients")  # rungs of the first step; the further ones are behaviour


_FOLDERS = re.compile(r"(?<![\w.])/(?:[\w.+-]+/)+")  # of an absolute path: those of the machine


@dataclass(frozen=True)
class Outcome:
    """`stage`: "unreadable" or "crash" (nothing written), "findings" (a person is needed), "spec" (no findings),
    "numeric", "behavioural"; `codes` counts the findings, `said` is what ended it."""

    stage: str
    codes: dict[str, int] = field(default_factory=dict)
    said: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "said", _FOLDERS.sub("", self.said))


def tried(entry: Entry, corpus: Path, timeout: float) -> Outcome:
    """Rewrites and compares one entry in a scratch folder."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as scratch:
        work = Path(scratch)
        script = entry.copy_to(corpus, work / "project")
        try:
            return _tried(entry, script, work, timeout)
        except subprocess.TimeoutExpired as error:
            stage = "crash" if "rewrite" in error.cmd else "spec"
            return Outcome(stage, said=f"{error.cmd[3]} took more than {timeout:.0f} s")


def _tried(entry: Entry, script: Path, work: Path, timeout: float) -> Outcome:
    rewrite = _migrate(["rewrite", str(script), "-o", str(work / "out")], entry, timeout)
    codes = dict(Counter(re.findall(r"^\S+:\d+:\d+: (MIG\d{3})", rewrite.stderr, re.MULTILINE)).most_common())
    if rewrite.returncode == 2:
        stage = "crash" if "MIG900" in rewrite.stderr or "Traceback" in rewrite.stderr else "unreadable"
        return Outcome(stage, codes, rewrite.stderr.strip().splitlines()[0] if rewrite.stderr else "")
    if entry.model and not entry.not_run:
        return _compared_model(entry, script, work, codes, timeout, whole=rewrite.returncode == 0)
    if entry.not_run:
        return Outcome("findings" if rewrite.returncode else "spec", codes, "" if rewrite.returncode else entry.not_run)
    compared = _compared(entry, script, work, codes, timeout)
    if not rewrite.returncode:
        return compared
    equal = compared.stage == "behavioural"
    return Outcome("findings", codes, "what the run reaches is equal, every loss" if equal else "")


def _prelude(entry: Entry, work: Path) -> Path:
    prelude = work / "prelude.py"
    prelude.write_text(PRELUDE.format(root=str(Path(__file__).parents[2]), setup=entry.setup))
    return prelude


def _compared(entry: Entry, script: Path, work: Path, codes: dict[str, int], timeout: float) -> Outcome:
    prelude = _prelude(entry, work)
    report = work / "report.json"
    command = ["parity", str(script), "--steps", str(entry.steps), "--prelude", str(prelude), "--report", str(report)]
    done = _migrate([*command, "--", *entry.arguments], entry, timeout)
    if not report.exists():
        return Outcome("spec", codes, " ".join((done.stderr or done.stdout).split())[-300:])
    result = json.loads(report.read_text())
    verdicts = {rung["name"]: rung["verdict"] for rung in result["rungs"]}
    numeric = bool(verdicts) and all(verdicts[name] == "equal" for name in NUMERIC if name in verdicts)
    said = " ".join(str(result["first_difference"] or " ".join(result["errors"])).split())[:300]
    if result["passed"]:
        return Outcome("behavioural", codes)
    return Outcome("numeric" if numeric else "spec", codes, said)


def _compared_model(
    entry: Entry, script: Path, work: Path, codes: dict[str, int], timeout: float, whole: bool
) -> Outcome:
    """`whole`: nothing is left for a person, though there may be notes."""
    report = work / "report.json"
    command = ["parity", "--model", f"{script}:{entry.model}", "--report", str(report)]
    command += ["--prelude", str(_prelude(entry, work))]
    if entry.recipe:
        command += ["--recipe", str(RECIPES / entry.recipe)]
    else:
        command += ["--args", entry.constructor, "--inputs", entry.inputs]
    done = _migrate(command, entry, timeout)
    reached = "spec" if whole else "findings"
    if not report.exists():
        return Outcome(reached, codes, " ".join((done.stderr or done.stdout).split())[-300:])
    result = json.loads(report.read_text())
    verdicts = {rung["name"]: rung["verdict"] for rung in result["rungs"]}
    equal = bool(verdicts) and all(verdicts[name] == "equal" for name in NUMERIC if name in verdicts)
    said = " ".join(str(result["first_difference"] or " ".join(result["errors"])).split())[:300]
    if equal and whole:
        return Outcome("behavioural" if result["passed"] else "numeric", codes, said)
    if equal:
        said = f"its outputs and gradients are equal{', after steps of training too' if result['passed'] else ''}"
    return Outcome(reached, codes, said)


def _migrate(arguments: list[str], entry: Entry, timeout: float) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if entry.image_size:
        environment["STANDIN_IMAGE_SIZE"] = str(entry.image_size)
    return subprocess.run(
        [sys.executable, "-m", "migrate", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
    )
