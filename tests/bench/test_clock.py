"""The clock's windows, pauses and answers, on a made-up time."""

import io
import json
from itertools import count

import pytest

from tests.bench.clock import StepClock, Stop


def run(commands: str, windows: int) -> list[list[float]]:
    """What the clock answers to the commands while a script offers so many windows, each two ticks long."""
    answers = io.StringIO()
    ticks = count()
    clock = StepClock(io.StringIO(commands), answers, cpu_time=lambda: 2.0 * next(ticks))
    for _ in range(windows):
        clock.begin()
        clock.begin()  # a second micro batch, say: the window is open already
        clock.end()
        clock.end()  # and closed already
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def test_answers_with_the_time_of_each_step_asked_for():
    assert run("2\n3\n", windows=5) == [[2.0, 2.0], [2.0, 2.0, 2.0]]


def test_an_unfinished_batch_of_steps_is_not_answered():
    assert run("2\n", windows=1) == []


@pytest.mark.parametrize("command", ["quit\n", ""])
def test_stops_the_script_when_told_to_or_left_alone(command):
    with pytest.raises(Stop):
        run("1\n" + command, windows=2)
