"""Conformance: every rule, layer and optimizer entry, run in both frameworks, from its own examples."""
