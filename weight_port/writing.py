"""Write one part of a file while the next is put in order."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

WORTH = 2**20  # bytes; less is written before another thread would begin to


class Behind:
    """A file that may still be at the last write when the next part is made: what it was given must stay as it is
    until it has been given more."""

    def __init__(self, file: IO[bytes], thread: ThreadPoolExecutor) -> None:
        self._file, self._thread = file, thread
        self._last: Future[Any] | None = None

    def write(self, data: bytes | memoryview) -> None:
        """Write the data after what came before. Raises the OSError of that, or its own by the end."""
        self.finish()
        if len(data) < WORTH:
            self._file.write(data)
        else:
            self._last = self._thread.submit(self._file.write, data)

    def finish(self) -> None:
        """Wait for the last write."""
        if self._last is not None:
            last, self._last = self._last, None
            last.result()


@contextmanager
def behind(file: IO[bytes]) -> Iterator[Behind]:
    """The file, written by a thread of its own."""
    with ThreadPoolExecutor(1) as thread:
        made = Behind(file, thread)
        yield made
        made.finish()
