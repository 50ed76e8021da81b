"""Stores: records are found while the index grows step by step, compiled and interpreted."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.plan.types import float64, int64, optional, string
from headrace.stage.generate.stores import StoreLayout
from headrace.stage.keyed_store import KeyedStore
from headrace.stage.store import GROUPS, key_groups
from headrace.stage.strings.hashing import hash_int
from headrace.stage.tables import store_functions

LAYOUT = StoreLayout("kept", (optional(string), int64), (("total", float64), ("note", string)))
MODES = pytest.mark.parametrize("compiled", [True, False])


def batch(rows):
    kinds = [("k", pa.string()), ("n", pa.int64()), ("total", pa.float64()), ("note", pa.string())]
    columns = [pa.array([row[i] for row in rows], kind) for i, (_, kind) in enumerate(kinds)]
    fields = [pa.field(name, kind, name == "k") for name, kind in kinds]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


words = st.one_of(st.none(), st.text(max_size=30))
entries = st.tuples(words, st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=40))


@MODES
@settings(max_examples=40)
@given(pushes=st.lists(st.lists(entries, max_size=120), max_size=4))
def test_the_last_value_of_a_key_is_kept_in_order_of_arrival(compiled, pushes):
    functions = store_functions(LAYOUT, None, compiled)
    columns = functions.columns(("k", "n"), ("total", "note"))
    store = KeyedStore(functions.entry, keeps_text=True, chunk_records=4)
    expected = {}
    for rows in pushes:
        functions.load(store, columns, batch(rows), replace=True)
        expected.update({(k, n): (total, note) for k, n, total, note in rows})
    saved, hashes = functions.save(store, columns, np.arange(store.count))
    found = [((r["k"], r["n"]), (r["total"], r["note"])) for r in saved.to_pylist()]
    assert found == list(expected.items())
    assert len(set(hashes.tolist())) == len(expected)


@MODES
def test_a_repeated_key_is_named(compiled):
    functions = store_functions(LAYOUT, None, compiled)
    columns = functions.columns(("k", "n"), ("total", "note"))
    store = KeyedStore(functions.entry, keeps_text=True)
    rows = [(f"key {n}", n, 0.0, "") for n in range(5000)] + [("key 7", 7, 0.0, "")]
    assert functions.load(store, columns, batch(rows), replace=False) == 5000


def test_the_index_grows_step_by_step():
    """No insert moves more than a few slots, and no key is lost on the way."""
    layout = StoreLayout("plain", (int64,), (("value", int64),))
    functions = store_functions(layout, None, compiled=True)
    columns = functions.columns(("k",), ("v",))
    store = KeyedStore(functions.entry)
    growing = 0
    ahead, count = 0, 400_000
    for start in range(0, count, 1000):
        keys = np.arange(start, start + 1000)
        rows = pa.RecordBatch.from_arrays(
            [pa.array(keys), pa.array(keys)],
            schema=pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64(), False)]),
        )
        functions.load(store, columns, rows, replace=False)
        growing += store.header.old_index != 0
        ahead += store.header.touched > 0 and store.header.next_index != 0
    saved, hashes = functions.save(store, columns, np.arange(store.count))
    assert saved.column("v").to_pylist() == list(range(count))
    assert growing > 3, "some pushes ended while the index was moving"
    assert ahead > 3, "and some while the next one was made ready"
    assert [hash_int(key) for key in range(50)] == hashes[:50].tolist()


def test_key_groups_are_even():
    groups = key_groups(np.array([hash_int(key) for key in range(20_000)]))
    counts = np.bincount(groups, minlength=GROUPS)
    assert len(counts) == GROUPS and counts.min() > 100 and counts.max() < 220
