"""State that changes owner: another number of shards at a restart.

Spark fixes the number of shards in its own files. So the query of old runs once more, in a batch
that reads nothing (`MOVE` messages): every shard writes all its records into a file. Then the next
*generation* begins, a query with Spark files of its own, at the offset where the one before it
stopped; its shards take the records of their key groups from the files when they are first called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.plan.errors import StateError
from headrace.stage.snapshot import OperatorState, Snapshot
from headrace.stage.store import GROUPS
from headrace.stage.tables import GROUP

from .files import damaged, lacking, write_file


def groups_of(shard: int, shards: int) -> range:
    """The key groups that a shard owns.

    >>> groups_of(0, 3), groups_of(1, 3), groups_of(2, 3)
    (range(0, 43), range(43, 86), range(86, 128))
    """
    return range(-(-shard * GROUPS // shards), -(-(shard + 1) * GROUPS // shards))


PART = re.compile(r"(\d+)-(\d+)-of-(\d+)\.state$")


def write_part(folder: str, stage: int, shard: int, shards: int, saved: Snapshot) -> None:
    """Leave all that a shard knows for its followers; written again it is the same."""
    assert saved.since is None, "a part is a base"
    write_file(_part(folder, stage, shard, shards), saved.to_bytes())


def read_parts(folder: str, stage: int, shard: int, shards: int) -> list[Snapshot]:
    """What the shards of old left of which a new one owns something; all of them must be there."""
    before = _shards_before(folder, stage)
    own, found = groups_of(shard, shards), []
    for old in range(before):
        path, theirs = _part(folder, stage, old, before), groups_of(old, before)
        if not path.exists():
            raise lacking(path)
        # Records without a key lie in shard 0; the others need its clock at least.
        if old == 0 or (theirs.start < own.stop and own.start < theirs.stop):
            try:
                found.append(Snapshot.from_bytes(path.read_bytes()))
            except StateError as error:
                raise damaged(path, str(error)) from None
    return found


def _part(folder: str, stage: int, shard: int, shards: int) -> Path:
    return Path(folder, f"{stage}-{shard}-of-{shards}.state")


def _shards_before(folder: str, stage: int) -> int:
    """How many shards have left the state of a stage."""
    names = [path.name for path in Path(folder).glob(f"{stage}-*.state")]
    counts = {int(named[3]) for name in names if (named := PART.match(name))}
    if len(counts) != 1:
        raise lacking(Path(folder, f"{stage}-*.state"))
    return counts.pop()


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
        ends: dict[int, list[int]] = {}
        for state in states:
            for pane, (first, last) in zip(state.header["open"], state.header["ends"], strict=True):
                ends[pane] = [min(first, ends.get(pane, [first])[0]), last]
        header["open"] = sorted(ends)
        header["ends"] = [ends[pane] for pane in header["open"]]
        header["fresh"] = []
    return OperatorState(header, rows)


def _of_groups(rows: pa.RecordBatch, groups: range) -> pa.RecordBatch:
    group = rows.column(GROUP).to_numpy()
    return rows.filter(pa.array((group >= groups.start) & (group < groups.stop)))
