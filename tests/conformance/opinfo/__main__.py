"""Measures every rule, or those named: `python -m tests.conformance.opinfo [NAME ...]`."""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.conformance.opinfo.outcome import Verdict, outcomes
from tests.conformance.opinfo.samples import OPERATORS, apis, operators, samples


def main(wanted: list[str]) -> None:
    total: Counter[str] = Counter()
    listed = [(api, "", entries) for api, entries in apis().items()]
    listed += [(f"operator {api}", OPERATORS[api[7:]], entries) for api, entries in operators().items()]
    for api, template, entries in listed:
        if wanted and not any(word == api or (word.endswith("*") and api.startswith(word[:-1])) for word in wanted):
            continue
        start = time.time()
        found = outcomes(list(samples(api, entries, template=template)))
        counts = Counter(str(one.verdict) for one in found)
        total += counts
        print(f"{api}: {dict(counts)} {time.time() - start:.1f} s", flush=True)
        shown: Counter[str] = Counter()
        for one in found:
            if one.verdict in (Verdict.DIFFERS, Verdict.REFUSED, Verdict.RAISES) or (
                wanted and one.verdict == Verdict.OUT
            ):
                shown[one.why[:40]] += 1
                if shown[one.why[:40]] <= 2:
                    shapes = {n: tuple(t.shape) for n, t in one.sample.tensors.items()}
                    dtype = str(one.sample.dtype)[6:]
                    print(f"   {one.verdict} {dtype} {one.sample.text} {shapes}: {one.why}", flush=True)
    print(dict(total))


main(sys.argv[1:])
