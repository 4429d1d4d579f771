"""Module classes: what a constructor makes becomes `setup` and fields, what a forward pass does `__call__`."""
