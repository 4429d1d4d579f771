"""`python -m tests.conformance.opinfo [NAME ...]` measures every rule, or those named, and keeps what it finds.

With names, each sample that does not agree is shown, with the reason.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, astuple

import torch

from migrate.rules.agreement import FILE, Agreement
from migrate.rules.catalogue import RULES
from tests.conformance.opinfo.outcome import Outcome, Verdict, outcomes
from tests.conformance.opinfo.samples import OPERATORS, apis, operators, samples

COUNTED = (Verdict.AGREES, Verdict.REFUSED, Verdict.RAISES, Verdict.DIFFERS)


def measure(api: str, share: float = 1.0) -> list[Outcome]:
    """What becomes of the samples of one API, or of an operator ("operator +")."""
    if api.startswith("operator "):
        name = api.removeprefix("operator ")
        entries, template = operators()[f"Tensor.{name}"], OPERATORS[name]
        return outcomes(api, list(samples(f"Tensor.{name}", entries, share, template)))
    return outcomes(api, list(samples(api, apis()[api], share)), values=compares_values(api))


def counted(found: Sequence[Outcome]) -> Agreement:
    """How many samples end in which way."""
    counts = Counter(one.verdict for one in found)
    return Agreement(*(counts[verdict] for verdict in COUNTED), unshown=sum(bool(one.unshown) for one in found))


def compares_values(api: str) -> bool:
    """Whether the values are fixed: not those of random draws and of memory that nothing has written to."""
    return not RULES[api].draws and "empty" not in api


def described(one: Outcome) -> str:
    """A sample that does not agree, in one line."""
    shapes = {name: tuple(tensor.shape) for name, tensor in one.sample.tensors.items()}
    unshown = f"; where the source does not show it: {one.unshown}" if one.unshown else ""
    return f"{one.verdict} {one.sample.dtype} {one.sample.text} {shapes}: {one.why}{unshown}"


def names() -> list[str]:
    """All that can be measured."""
    return [*apis(), *(f"operator {name[7:]}" for name in operators())]


def main(wanted: list[str]) -> None:
    known = json.loads(FILE.read_text()) if FILE.exists() else {"apis": {}}
    listed = names()
    for api in listed:
        if wanted and not any(w == api or (w.endswith("*") and api.startswith(w[:-1])) for w in wanted):
            continue
        found = measure(api)
        known["apis"][api] = list(astuple(counted(found)))
        print(f"{api}: {' '.join(f'{name} {count}' for name, count in asdict(counted(found)).items())}", flush=True)
        for one in found:
            if one.verdict in COUNTED[1:] or one.unshown:
                print(f"    {described(one)}", flush=True)
        apis_found = {name: counts for name, counts in sorted(known["apis"].items()) if name in listed}
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(counts)}" for name, counts in apis_found.items())
        FILE.write_text(f'{{"torch": "{torch.__version__.split("+")[0]}", "apis": {{\n{lines}\n}}}}\n')
    total = sum((Agreement(*counts) for counts in known["apis"].values()), Agreement())
    print(f"{len(known['apis'])} APIs, {total.samples} samples: {asdict(total)}")


if __name__ == "__main__":
    main(sys.argv[1:])
