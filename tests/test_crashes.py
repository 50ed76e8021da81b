"""A process of the tests that crashes says where."""

import subprocess
import sys
from pathlib import Path

from tests import crashes

PROGRAM = """
import ctypes, sys
from tests import crashes
noted = crashes.note_in(sys.argv[1], "gw7")
def reading(address):
    return ctypes.string_at(address)
reading(8)
"""


def test_where_a_process_crashed():
    folder = crashes.new_folder()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder], cwd=Path(__file__).parents[1], check=False
    )
    assert done.returncode != 0
    process, what, thread, *frames = crashes.summary(folder)
    assert (process, what) == ("gw7:", "Fatal Python error: Segmentation fault")
    assert thread.startswith("Current thread") and any("in reading" in line for line in frames)
    assert not Path(folder).exists()
