"""An oracle of high precision: any traced JAX function, evaluated on numbers of hundreds of bits.

`exactly(f, *args)` traces `f` and evaluates its jaxpr with mpmath, or with the certified balls of python-flint. What
comes back is the value of the *program*: its literals are what the trace holds, float32 where it was traced in float32.
Traced under x64, that is the function to within float64's literals.
"""

from parity.oracle.interpreter import Unknown, evaluated, exactly
from parity.oracle.numbers import Arb, Mpmath, Numbers, Undecided

__all__ = ["Arb", "Mpmath", "Numbers", "Undecided", "Unknown", "evaluated", "exactly"]
