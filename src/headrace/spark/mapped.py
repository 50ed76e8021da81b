"""Tables and secrets on their way to the tasks: neither is pickled into the plan.

Secrets (passwords of Kafka, say) are not written at all: the driver hands them over. Large tables
are Arrow files beside the plan, which every process maps.

Static tables and rows in memory may be large. Pickled, each worker would read them and keep a copy;
an Arrow file lies in memory once for all workers of a machine.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.plan.secret import Secret

from .files import write_new

SMALL = 1 << 16  # bytes up to which a table stays in the plan


def dumps(value: Any, folder: Path, name: str) -> tuple[bytes, tuple[str, ...]]:
    """Pickle a value (functions too); large tables in it become files `<name>-<n>.arrow`.

    Gives the secrets in it apart.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> numbers = pa.table({"n": range(100_000)})
    >>> few = pa.table({"n": [1, 2]})
    >>> given = {"numbers": numbers, "few": few, "password": Secret("swordfish")}
    >>> content, secrets = dumps(given, Path(folder.name), "data")
    >>> b"swordfish" in content, secrets
    (False, ('swordfish',))
    >>> len(content) < 2000, [path.name for path in Path(folder.name).iterdir()]
    (True, ['data-0.arrow'])
    >>> back = loads(content, Path(folder.name), secrets)
    >>> back["numbers"].equals(numbers), back["password"].value
    (True, 'swordfish')
    >>> folder.cleanup()
    """
    from pyspark import cloudpickle

    written: dict[int, tuple[str, Any]] = {}  # by identity, which lasts as long as they are held

    secrets: list[str] = []

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc,name-defined]
        def persistent_id(self, given: Any) -> str | int | None:
            if isinstance(given, Secret):
                secrets.append(given.value)
                return len(secrets) - 1
            if not isinstance(given, pa.Table) or given.get_total_buffer_size() <= SMALL:
                return None
            if id(given) not in written:
                file = f"{name}-{len(written)}.arrow"
                _write(given, folder / file)
                written[id(given)] = file, given
            return written[id(given)][0]

    content = io.BytesIO()
    Pickler(content).dump(value)
    return content.getvalue(), tuple(secrets)


def loads(content: bytes, folder: Path, secrets: Sequence[str] = ()) -> Any:
    """What `dumps` made of a value; the tables are mapped."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, file: str | int) -> pa.Table | Secret:
            if isinstance(file, int):
                return Secret(secrets[file])
            return pa.ipc.open_file(pa.memory_map(os.fspath(folder / file))).read_all()

    return Unpickler(io.BytesIO(content)).load()


def _write(table: pa.Table, path: Path) -> None:
    waiting = path.with_suffix(".part")
    write_new(waiting, b"")  # private from the beginning
    with pa.OSFile(os.fspath(waiting), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    os.replace(waiting, path)
