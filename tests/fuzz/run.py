"""Feed everything that takes bytes from outside with damaged ones: `make fuzz`.

    python -m tests.fuzz.run --seconds 60 --seed 1 --keep found/

Each target runs in processes of its own, which may die; what they die of is kept. The last lines
are a table for docs/reliability.md.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import case

HANG_SECONDS = 120.0  # that one case may take, on a machine that is busy with other things
MOST_MEMORY = 3 << 30  # bytes of a worker; the inputs have kBs
LOOK_SECONDS = 0.05
PROGRAM = "from tests.fuzz.worker import run; run()"


@dataclass
class Summary:
    """What became of the cases of a target."""

    target: str
    read: int = 0
    refused: int = 0
    crashes: int = 0
    peak: int = 0
    findings: list[tuple[int, str]] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return self.read + self.refused + len(self.findings)

    def row(self) -> str:
        """A line of the table."""
        peak = f"{self.peak >> 20:,} MiB"
        others = len(self.findings) - self.crashes
        return (
            f"| {self.target} | {self.cases:,} | {self.read:,} | {self.refused:,} | "
            f"{self.crashes} | {others} | {peak} |"
        )


HEAD = (
    "| input | cases | read | refused | crashes and hangs | other errors | peak memory |\n"
    "|---|---|---|---|---|---|---|"
)


def fuzz(target: str, seed: str, cases: int = -1, seconds: float = 1e9) -> Summary:
    """Try so many cases of a target, or so long, over the deaths of its workers."""
    made, first, began = Summary(target), 0, time.monotonic()
    while (left := seconds - (time.monotonic() - began)) > 0 and cases != made.cases:
        with tempfile.NamedTemporaryFile() as journal:
            more = cases - made.cases if cases > 0 else -1
            arguments = [target, seed, first, more, left, journal.name]
            died, answer = _worker([str(each) for each in arguments], Path(journal.name))
            tried = int(Path(journal.name).read_bytes() or b"-1")
        if died:
            made.findings.append((tried, died))
            made.crashes += 1
            if tried < first:  # it does not even start
                break
            made.read += tried - first  # what they gave is not known any more
            first = tried + 1
            continue
        made.read += answer["read"]
        made.refused += answer["refused"]
        made.findings += [tuple(each) for each in answer["findings"]]
        made.peak = max(made.peak, answer["peak"])
        if made.peak > MOST_MEMORY:
            made.findings.append((tried, f"{made.peak >> 20:,} MiB of memory"))
        break
    return made


def _worker(arguments: list[str], journal: Path) -> tuple[str, dict]:
    """Run a worker to its end; how it died (or ""), and what it answered."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        worker = subprocess.Popen(command, stdout=output, stderr=errors)
        noted, since = b"", time.monotonic()
        try:
            while worker.poll() is None:
                time.sleep(LOOK_SECONDS)
                if (now := journal.read_bytes()) != noted:
                    noted, since = now, time.monotonic()
                if time.monotonic() - since > HANG_SECONDS:
                    return "hangs", {}
        finally:
            worker.kill()
            worker.wait()
        for file in (output, errors):
            file.seek(0)
        if worker.returncode:
            name = ""
            if worker.returncode < 0:
                name = signal.Signals(-worker.returncode).name
            return f"dies: {name} {errors.read()[-300:].decode(errors='replace')}".strip(), {}
        return "", json.loads(output.read())


def keep(summary: Summary, seed: str, where: Path) -> None:
    """Write the bytes of findings into a folder, to be looked at."""
    corpus = TARGETS[summary.target].corpus() if summary.cases else []
    where.mkdir(parents=True, exist_ok=True)
    for number, _ in summary.findings:
        path = where / f"{summary.target.replace(' ', '-')}-{seed}-{number}"
        path.write_bytes(case(summary.target, corpus, seed, max(0, number)))


def main() -> int:
    """Fuzz all targets, or some."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", default=str(time.time_ns()))
    parser.add_argument("--keep", type=Path, default=Path(".fuzz"), help="where findings go")
    given = parser.parse_args()
    found = []
    for target in given.targets or TARGETS:
        summary = fuzz(target, given.seed, seconds=given.seconds)
        found.append(summary)
        print(f"{target}: {summary.cases:,} cases, {len(summary.findings)} findings", flush=True)
        for number, what in summary.findings[:20]:
            print(f"  case {number}: {what}")
        if summary.findings:
            keep(summary, given.seed, given.keep)
    print(f"\nseed {given.seed}\n\n{HEAD}")
    print("\n".join(summary.row() for summary in found))
    return int(any(summary.findings for summary in found))


if __name__ == "__main__":
    sys.exit(main())
