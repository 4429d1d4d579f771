"""Single operations of both frameworks against the oracle: `migrate parity --op softmax`, `--all-ops`."""
