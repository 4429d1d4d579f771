"""migrate: takes PyTorch projects to JAX."""

__version__ = "0.1.0"
