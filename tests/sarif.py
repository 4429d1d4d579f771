"""What a reader of SARIF 2.1.0 makes of a log."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from sarif_pydantic import Sarif

# Of a run (3.14.17) and of an invocation (3.20), which the model lacks.
_OF_THE_STANDARD = {"columnKind", "exitCode", "toolExecutionNotifications"}


def run_of(log: str) -> dict[str, Any]:
    """The only run of a log, in which the standard's model knows every field and value."""
    data = json.loads(log)
    assert set(unknown(Sarif.model_validate(data))) <= _OF_THE_STANDARD
    (run,) = data["runs"]
    return run


def unknown(value: Any) -> list[str]:
    """The fields that the model lets through without knowing them."""
    if isinstance(value, list):
        return [name for item in value for name in unknown(item)]
    if not isinstance(value, BaseModel):
        return []
    deeper = [name for field in value.model_fields_set for name in unknown(getattr(value, field))]
    return [*(value.model_extra or {}), *deeper]
