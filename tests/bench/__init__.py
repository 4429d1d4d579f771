"""`make bench`: CPU time per training step, the rewritten samples against PyTorch and against hand-written Flax."""
