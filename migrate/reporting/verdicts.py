"""What `migrate parity` has verified of a conversion, from the report that it wrote (`--report FILE.json`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from migrate.reporting.formats import NOT_VERIFIED, STAGES

VERIFIED, DIFFERS = "verified", "differs"
_NUMERIC = ("outputs", "loss", "gradients")  # rungs of the first step; the further ones are behaviour


class VerdictError(ValueError):
    """A report that says nothing about this conversion. The message says why."""


def digest(data: bytes) -> str:
    """What tells two versions of a file apart."""
    return hashlib.sha256(data).hexdigest()


def stages_of(path: Path, before: bytes, after: bytes, whole: bool) -> dict[str, str]:
    """The stages of a conversion by a report of parity: of a script (`before`) and what it became (`after`). `whole`:
    nothing in it needs a person. Raises VerdictError for a report of something else."""
    found = _read(path)
    if found.get("digests") != {"script": digest(before), "rewritten": digest(after)}:
        raise VerdictError(f"{path}: is of another script, or of another version of it: run `migrate parity` again")
    ran = not found["errors"] and bool(found["steps"])
    stages = dict(STAGES)
    if whole and ran:
        stages["spec"] = f"{VERIFIED}: it runs with the same command line"
    verdicts = {rung["name"]: rung["verdict"] for rung in found["rungs"]}
    stages["numeric"] = _told([verdicts[name] for name in _NUMERIC if name in verdicts], found)
    told = _told([verdict for name, verdict in verdicts.items() if name not in _NUMERIC], found)
    if found["passed"] and ran:
        stages["behavioural"] = f"{VERIFIED} over {len(found['steps'])} steps"
    elif told.startswith(DIFFERS):
        stages["behavioural"] = told
    return stages


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise VerdictError(f"{path}: {error}") from None
    if not isinstance(found, dict) or found.get("format") != "migrate-parity":
        raise VerdictError(f"{path}: is no report of `migrate parity --report FILE.json`")
    return found


def _told(verdicts: list[str], found: Mapping[str, Any]) -> str:
    if DIFFERS in verdicts:
        return f"{DIFFERS}: {found['first_difference']}"
    return VERIFIED if verdicts and all(verdict == "equal" for verdict in verdicts) else NOT_VERIFIED
