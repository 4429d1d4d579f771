"""Optimizer classes of the user's own, read from their syntax."""
