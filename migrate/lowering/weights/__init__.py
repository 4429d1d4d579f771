"""Weights as values: selected, frozen, set, averaged, saved and loaded under their names."""
