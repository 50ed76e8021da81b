"""Tables on their way to the tasks: Arrow files beside the plan, which every process maps.

Static tables and rows in memory may be large. Pickled, each worker would read them and keep a copy;
an Arrow file lies in memory once for all workers of a machine.
"""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa

SMALL = 1 << 16  # bytes up to which a table stays in the plan


def dumps(value: Any, folder: Path, name: str) -> bytes:
    """Pickle a value (functions too); large tables in it become files `<name>-<n>.arrow`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> numbers = pa.table({"n": range(100_000)})
    >>> few = pa.table({"n": [1, 2]})
    >>> content = dumps({"numbers": numbers, "few": few}, Path(folder.name), "data")
    >>> len(content) < 2000, [path.name for path in Path(folder.name).iterdir()]
    (True, ['data-0.arrow'])
    >>> loads(content, Path(folder.name))["numbers"].equals(numbers)
    True
    >>> folder.cleanup()
    """
    from pyspark import cloudpickle

    written: dict[int, tuple[str, Any]] = {}  # by identity, which lasts as long as they are held

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc,name-defined]
        def persistent_id(self, given: Any) -> str | None:
            if not isinstance(given, pa.Table) or given.get_total_buffer_size() <= SMALL:
                return None
            if id(given) not in written:
                file = f"{name}-{len(written)}.arrow"
                _write(given, folder / file)
                written[id(given)] = file, given
            return written[id(given)][0]

    content = io.BytesIO()
    Pickler(content).dump(value)
    return content.getvalue()


def loads(content: bytes, folder: Path) -> Any:
    """What `dumps` made of a value; the tables are mapped."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, file: str) -> pa.Table:
            return pa.ipc.open_file(pa.memory_map(os.fspath(folder / file))).read_all()

    return Unpickler(io.BytesIO(content)).load()


def _write(table: pa.Table, path: Path) -> None:
    waiting = path.with_suffix(".part")
    with pa.OSFile(os.fspath(waiting), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    os.replace(waiting, path)
