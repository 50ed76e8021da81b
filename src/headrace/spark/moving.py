"""State that changes owner: another number of shards at a restart.

Spark fixes the number of shards in its own files. So the query of old runs once more, in a batch
that reads nothing (`MOVE` letters): every shard writes all its records into a file. Then the next
*generation* begins, a query with Spark files of its own, at the offset where the one before it
stopped; its shards take the records of their key groups from the files when they are first called.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.plan.errors import StateError
from headrace.stage.snapshot import GROUP, OperatorState, Snapshot
from headrace.stage.store import GROUPS


def groups_of(shard: int, shards: int) -> range:
    """The key groups that a shard owns.

    >>> groups_of(0, 3), groups_of(1, 3), groups_of(2, 3)
    (range(0, 43), range(43, 86), range(86, 128))
    """
    return range(-(-shard * GROUPS // shards), -(-(shard + 1) * GROUPS // shards))


def write_part(folder: str, stage: int, shard: int, shards: int, saved: Snapshot) -> None:
    """Leave all that a shard knows for its followers; written again it is the same."""
    assert saved.since is None, "a part is a base"
    os.makedirs(folder, exist_ok=True)
    path = Path(folder, f"{stage}-{shard}-of-{shards}.state")
    waiting = path.with_suffix(f".{saved.token}.part")
    with open(waiting, "wb") as file:
        file.write(saved.to_bytes())
        file.flush()
        os.fsync(file.fileno())
    os.replace(waiting, path)


def read_parts(folder: str, stage: int, shard: int, shards: int) -> list[Snapshot]:
    """What the shards of old left of which a new one owns something."""
    own, found = groups_of(shard, shards), []
    for path in sorted(Path(folder).glob(f"{stage}-*.state")):
        _, before, _, count = path.stem.split("-")
        theirs = groups_of(int(before), int(count))
        # Records without a key lie in shard 0; the others need its clock at least.
        if int(before) == 0 or (theirs.start < own.stop and own.start < theirs.stop):
            found.append(Snapshot.from_bytes(path.read_bytes()))
    return found


def merged(
    parts: Sequence[Snapshot], shard: int, shards: int, senders: Mapping[str, Sequence[str]]
) -> Snapshot:
    """What a new shard knows in the beginning.

    senders: for each input whose rows come from other shards, those that there are now. All shards
    of a stage hear of the same watermarks in each batch, so those of old speak for the new ones.
    """
    operators = {
        identity: _chosen([part.operators[identity] for part in parts], shard, shards)
        for identity in parts[0].operators
    }
    first = parts[0]
    inputs = {}
    for name, known in first.inputs.items():
        channels = known["channels"]
        if name in senders:
            least = min(mark for mark, _ in channels.values())
            ended = all(over for _, over in channels.values())
            channels = {sender: [least, ended] for sender in senders[name]}
        inputs[name] = {**known, "channels": channels}
    return Snapshot(first.token, None, operators, inputs, first.watermarks)


def _chosen(states: Sequence[OperatorState], shard: int, shards: int) -> OperatorState:
    """The records of an operator that a shard owns."""
    shape = states[0].header["shape"]
    for state in states:
        if state.header["shape"] != shape:
            raise StateError(f"the parts of a moved state differ: {shape}, {state.header['shape']}")
    if not shape["key"]:  # one owner
        rows = states[0].rows if shard == 0 else states[0].rows.slice(0, 0)
    else:
        own = groups_of(shard, shards)
        kept = [_of_groups(state.rows, own) for state in states]
        rows = pa.concat_batches(kept)  # type: ignore[attr-defined]
    header: dict[str, Any] = {"shape": shape}
    if "open" in states[0].header:
        header["open"] = sorted({start for state in states for start in state.header["open"]})
        header["fresh"] = []
    return OperatorState(header, rows)


def _of_groups(rows: pa.RecordBatch, groups: range) -> pa.RecordBatch:
    group = rows.column(GROUP).to_numpy()
    return rows.filter(pa.array((group >= groups.start) & (group < groups.stop)))
