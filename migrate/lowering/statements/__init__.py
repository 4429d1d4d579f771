"""Statements in their order: assignments, branches, loops and functions, with the state that they thread."""
