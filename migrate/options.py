"""How a project is to be rewritten where its own text leaves a choice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CheckpointFormat(StrEnum):
    """What the checkpoints of an output are: files of Flax's msgpack, or folders of Orbax."""

    msgpack = "msgpack"
    orbax = "orbax"


@dataclass(frozen=True)
class Options:
    """data_parallel: batches are split over all devices even where the project uses one."""

    data_parallel: bool = False
    checkpoints: CheckpointFormat = CheckpointFormat.msgpack


DEFAULT = Options()
