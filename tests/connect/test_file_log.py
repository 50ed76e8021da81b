"""The log of a watched folder says what was found, or that it was changed."""

import random

import pytest

from headrace.connect.file_log import FileLog
from headrace.plan.errors import DataError


def test_a_log_that_was_damaged(tmp_path):
    """No flipped bit of an entry gives another file, or another size."""
    path = tmp_path / "log"
    FileLog(path).add([(f"part-{n}.parquet", 4096 + n) for n in range(20)])
    content, chance = path.read_bytes(), random.Random(1)
    first = content.index(b"\n") + 1
    expected = [(f"part-{n}.parquet", 4096 + n) for n in range(20)]
    for _ in range(200):
        at, bit = chance.randrange(first, len(content)), 1 << chance.randrange(8)
        path.write_bytes(content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :])
        log = FileLog(path)
        try:
            found = [(entry.name, entry.size) for entry in log.entries(first)]
        except DataError:
            continue
        assert found == expected[: len(found)] and len(found) == 19  # the last line lost its end
    with pytest.raises(DataError, match="it is not what it was"):
        path.write_bytes(content.replace(b"4100", b"4101"))
        list(FileLog(path).entries(first))
