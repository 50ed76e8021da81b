"""A process that feeds one target with bytes until it has done enough, or dies of them.

What it is about to try stands in a journal, so that whoever started it knows what it died of.
"""

import itertools
import json
import os
import re
import shutil
import sys
import time
import warnings
from pathlib import Path
from random import Random

from tests.fuzz.mutation import mutated
from tests.fuzz.targets import REFUSALS, TARGETS, folder

SHOWN = 200  # characters of an error


def case(target, corpus, seed, number):
    """The bytes of a case, by its number; the first ones are the corpus as it is."""
    if number < len(corpus):
        return corpus[number]
    random = Random(f"{seed} {target} {number}")
    return mutated(random.choice(corpus), random)


def main(target, seed, first, cases, seconds, journal):
    """Try cases from `first` on, so many or so long; says what became of them."""
    warnings.simplefilter("ignore")
    read, corpus = TARGETS[target].read, TARGETS[target].corpus()
    counts, findings = {"read": 0, "refused": 0}, []
    until, done = time.monotonic() + seconds, 0
    with open(journal, "r+b", buffering=0) as noted:
        for number in itertools.count(first):
            if done == cases or time.monotonic() > until:
                break
            os.pwrite(noted.fileno(), b"%020d" % number, 0)
            try:
                read(case(target, corpus, seed, number))
                counts["read"] += 1
            except REFUSALS as error:
                if number < len(corpus):
                    findings.append([number, f"the corpus itself: {error}"[:SHOWN]])
                counts["refused"] += 1
            except Exception as error:
                findings.append([number, f"{type(error).__name__}: {error}"[:SHOWN]])
            done += 1
    shutil.rmtree(folder(), ignore_errors=True)
    # getrusage would count the process that has started this one, which may be large
    (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    print(json.dumps({**counts, "findings": findings, "peak": int(peak) << 10}))


def run():
    """What the command line says."""
    target, seed, first, cases, seconds, journal = sys.argv[1:]
    main(target, seed, int(first), int(cases), float(seconds), journal)
