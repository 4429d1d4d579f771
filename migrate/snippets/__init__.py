"""Small JAX functions that a rewritten script may need: each file is copied into the output and must read well there.

Nothing here is imported by the toolkit itself; the tests import each file, and `migrate.emit` reads it as text.
"""
