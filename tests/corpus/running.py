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

from tests.corpus.entries import PACKAGES, Entry

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
            return _Trial(entry, script, work, timeout, corpus / PACKAGES).outcome()
        except subprocess.TimeoutExpired as error:
            stage = "crash" if "rewrite" in error.cmd else "spec"
            return Outcome(stage, said=f"{error.cmd[3]} took more than {timeout:.0f} s")


@dataclass(frozen=True)
class _Trial:
    """One entry in its scratch folder. `packages`: a folder of installed packages that its script may import."""

    entry: Entry
    script: Path
    work: Path
    timeout: float
    packages: Path

    def outcome(self) -> Outcome:
        """What is reached."""
        entry, rewrite = self.entry, self._migrate(["rewrite", str(self.script), "-o", str(self.work / "out")])
        codes = dict(Counter(re.findall(r"^\S+:\d+:\d+: (MIG\d{3})", rewrite.stderr, re.MULTILINE)).most_common())
        if rewrite.returncode == 2:
            stage = "crash" if "MIG900" in rewrite.stderr or "Traceback" in rewrite.stderr else "unreadable"
            return Outcome(stage, codes, rewrite.stderr.strip().splitlines()[0] if rewrite.stderr else "")
        if entry.model and not entry.not_run:
            return self._model_compared(codes, whole=rewrite.returncode == 0)
        if entry.not_run:
            return Outcome("findings" if rewrite.returncode else "spec", codes, "" if rewrite.returncode else entry.not_run)
        compared = self._script_compared(codes)
        if not rewrite.returncode:
            return compared
        equal = compared.stage == "behavioural"
        return Outcome("findings", codes, "what the run reaches is equal, every loss" if equal else "")

    def _script_compared(self, codes: dict[str, int]) -> Outcome:
        command = ["parity", str(self.script), "--steps", str(self.entry.steps), *self._prelude()]
        told = self._told([*command, "--", *self.entry.arguments])
        if isinstance(told, str):
            return Outcome("spec", codes, told)
        if told.passed:
            return Outcome("behavioural", codes)
        return Outcome("numeric" if told.numeric else "spec", codes, told.said)

    def _model_compared(self, codes: dict[str, int], whole: bool) -> Outcome:
        """`whole`: nothing is left for a person, though there may be notes."""
        entry = self.entry
        command = ["parity", "--model", f"{self.script}:{entry.model}", *self._prelude()]
        if entry.recipe:
            command += ["--recipe", str(RECIPES / entry.recipe)]
        else:
            command += ["--args", entry.constructor, "--inputs", entry.inputs]
        told = self._told(command)
        reached = "spec" if whole else "findings"
        if isinstance(told, str):
            return Outcome(reached, codes, told)
        if told.numeric and whole:
            return Outcome("behavioural" if told.passed else "numeric", codes, told.said)
        after = ", after steps of training too" if told.passed else ""
        return Outcome(reached, codes, f"its outputs and gradients are equal{after}" if told.numeric else told.said)

    def _prelude(self) -> list[str]:
        prelude = self.work / "prelude.py"
        prelude.write_text(PRELUDE.format(root=str(Path(__file__).parents[2]), setup=self.entry.setup))
        return ["--prelude", str(prelude)]

    def _told(self, command: list[str]) -> _Told | str:
        """What a comparison finds; what it says where it ends without a report."""
        report = self.work / "report.json"
        done = self._migrate([command[0], "--report", str(report), *command[1:]])
        if not report.exists():
            return " ".join((done.stderr or done.stdout).split())[-300:]
        result = json.loads(report.read_text())
        verdicts = {rung["name"]: rung["verdict"] for rung in result["rungs"]}
        numeric = bool(verdicts) and all(verdicts[name] == "equal" for name in NUMERIC if name in verdicts)
        said = " ".join(str(result["first_difference"] or " ".join(result["errors"])).split())[:300]
        return _Told(result["passed"], numeric, said)

    def _migrate(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(self.packages)]))
        if self.entry.image_size:
            environment["STANDIN_IMAGE_SIZE"] = str(self.entry.image_size)
        return subprocess.run(
            [sys.executable, "-m", "migrate", *arguments],
            capture_output=True,
            text=True,
            timeout=self.timeout,
            env=environment,
        )


@dataclass(frozen=True)
class _Told:
    """What the report of a comparison says. `numeric`: the first step is equal."""

    passed: bool
    numeric: bool
    said: str
