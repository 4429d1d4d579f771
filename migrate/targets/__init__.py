"""Targets: the only places that know a target's module shape and constructor names."""
