"""`python -m tests.bench.outputs PATH… > before.txt`: a line for each output of the rewriter, which changes with it.

A change that is only to make the rewriter faster leaves these lines as they were: `diff before.txt after.txt`. The CPU
time of each part, files that are converted together, goes to standard error.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from migrate.files.project import python_files, read_project
from migrate.files.reached_files import independent_parts, shown
from migrate.pipeline import ProjectConversion, convert_project


def main(arguments: Sequence[str]) -> None:
    """Prints the lines of all files in some folders."""
    for part in independent_parts(python_files(map(Path, arguments))):
        started = time.process_time()
        conversion = convert_project(read_project(part))
        print(f"{time.process_time() - started:8.2f} s  {len(part):4} files  {shown(part[0])}", file=sys.stderr)
        print(*lines(conversion), sep="\n", flush=True)


def lines(conversion: ProjectConversion) -> Iterator[str]:
    """A digest of each output with its findings, and one of the weights of all."""
    for output in conversion.outputs:
        yield f"{digest(output.data, output.diagnostics)}  {shown(output.member.path)}"
    yield f"{digest(b'', conversion.manifest)}  weights of {conversion.manifest.source}"


def digest(data: bytes, said: object) -> str:
    """What tells two outputs apart."""
    return hashlib.sha256(data + repr(said).encode()).hexdigest()[:16]


if __name__ == "__main__":
    main(sys.argv[1:])
