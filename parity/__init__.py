"""Proof that a rewritten training script computes what the original computes.

`compare.compare_script` runs both scripts, each in a process of its own, from the same weights, on the same data, with
the same stand-in for every random draw; `ladder` compares what they recorded, rung by rung; `report` shows it.
"""
