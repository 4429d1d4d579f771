"""Data that looks like the real: learnable, small, the same at each run."""

from __future__ import annotations

import numpy as np

_TEXT = """
the a king queen old young man woman saw took gave said went to from with under over river hill castle horse sword
light dark day night love hate and but or if then when where who what why never always good bad great small first
last long short come go speak hear
"""
WORDS = _TEXT.split()


def images(count: int, size: int, channels: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """uint8 images [count, size, size, channels], each its class's low-frequency prototype and noise; int64 classes."""
    draws = np.random.RandomState(seed)
    cells = max(2, size // 4)
    # The prototypes are those of every split.
    prototypes = np.random.RandomState(1234).rand(classes, cells, cells, channels)
    repeats = -(-size // cells)
    prototypes = prototypes.repeat(repeats, 1).repeat(repeats, 2)[:, :size, :size]
    labels = draws.randint(0, classes, count)
    pixels = 0.65 * prototypes[labels] + 0.35 * draws.rand(count, size, size, channels)
    return (pixels * 255).astype(np.uint8), labels.astype(np.int64)


def text(length: int = 40_000, seed: int = 0) -> str:
    """At least `length` characters of a Markov chain over a fixed word list, nine words a line."""
    draws = np.random.RandomState(seed)
    following = draws.dirichlet(np.full(len(WORDS), 0.08), size=len(WORDS))
    pieces: list[str] = []
    word = total = 0
    while total < length:
        word = int(draws.choice(len(WORDS), p=following[word]))
        pieces.append(WORDS[word] + (" " if (len(pieces) + 1) % 9 else ".\n"))
        total += len(pieces[-1])
    return "".join(pieces)
