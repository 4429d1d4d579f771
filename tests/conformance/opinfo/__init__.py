"""The rules against torch's own argument samples: `python -m tests.conformance.opinfo` measures what share agrees.

torch tests each of its operations on samples of arguments (its "OpInfo" table): every combination of optional
arguments, shapes without elements, negative axes, numbers in place of tensors. Each sample is written as a call in
source text, rewritten, and executed in both frameworks.
"""
