"""docs/papers.md and docs/scheduling.md are true: names can be imported, tests exist, code runs."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.control.features import DERIVED, FEATURES
from headrace.control.policies import POLICIES
from headrace.control.simulator import Profile

ROOT = Path(__file__).resolve().parents[2]
PAPERS = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
SCHEDULING = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`(headrace(?:\.\w+)+)`", PAPERS + SCHEDULING)))
TESTS = sorted(set(re.findall(r"`(test_\w+\.py)::(\w+)`", PAPERS)))
PROFILE = re.findall(r"```json\n(.*?)```", SCHEDULING, re.S)[0]
PROGRAMS = re.findall(r"```python\n(.*?)```", SCHEDULING, re.S)
PRINTED = [  # by the programs of the page
    r"200000 rows; policy 'highest_rate', asked every 5 ms at most, in Python\n",
    r"[\d,]+ rows/s, mean latency [\d.]+ ms\n",
    r"policy 'in_turns', 1 at once; no queries\n",
    r"",
]


def resolve(name):
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[count:]:
            found = getattr(found, attribute)
        return found
    raise ImportError(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_imported(name):
    resolve(name)


@pytest.mark.parametrize(("file", "test"), TESTS)
def test_every_test_exists(file, test):
    (path,) = (ROOT / "tests").rglob(file)
    source = path.read_text(encoding="utf-8")
    assert re.search(rf"^def {test}\(", source, re.M)


def test_every_row_has_a_function_and_a_test():
    rows = [line for line in PAPERS.splitlines() if line.startswith("|")]
    bodies = [row for row in rows if not row.startswith(("|---", "| what"))]
    assert len(bodies) > 30
    for row in bodies:
        what, function, test, _ = row.strip("|").split(" | ")
        assert "`headrace." in function and "::" in test, what


def test_every_policy_and_feature_is_explained():
    for name in [*POLICIES, *FEATURES, *DERIVED]:
        assert f"`{name}`" in SCHEDULING, name


@pytest.mark.parametrize(("program", "printed"), list(zip(PROGRAMS, PRINTED, strict=True)))
def test_the_programs_of_the_page_run(program, printed, tmp_path):
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(printed, done.stdout)


def test_the_profile_of_the_page_is_one():
    names = [operator.name for operator in Profile.from_json(PROFILE).operators]
    assert names == ["clicks", "views", "count"]
