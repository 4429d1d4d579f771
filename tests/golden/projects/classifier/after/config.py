"""Settings that every file takes from here."""

BATCH_SIZE = 16
CLASSES = 3
HIDDEN = 24
