"""Room for state: what is taken is counted, bounded and given back."""

import weakref

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stage.both import mode

from headrace.plan.types import int64, string
from headrace.stage.generate.stores import StoreLayout
from headrace.stage.keyed_store import KeyedStore, by_host
from headrace.stage.memory.records import LINE
from headrace.stage.panes import take_spare
from headrace.stage.room import grow_panes
from headrace.stage.store import Account, Store
from headrace.stage.store_room import PIECE, Piece, charge, give_memory, take_memory
from headrace.stage.tables import store_functions
from headrace.stage.windows import OpenWindows

LAYOUT = StoreLayout("kept", (string,), (("value", int64),))


@mode
@given(sizes=st.lists(st.integers(1, 5_000_000), max_size=8))
@settings(max_examples=20)
def test_memory_lies_on_lines_and_is_counted(mode, sizes):
    account, take, give = Account.allocate(), mode(take_memory), mode(give_memory)
    taken = [take(account.address, size, k % 2) for k, size in enumerate(sizes)]
    assert account.used == sum(sizes) and all(address % LINE == 0 for address in taken)
    for address in taken:
        give(account.address, address)
    assert account.used == 0


@mode
def test_more_than_the_limit_is_refused_and_not_counted(mode):
    account, take = Account.allocate(), mode(take_memory)
    account.limit = 1000
    address = take(account.address, 900, 0)
    with pytest.raises(MemoryError):
        take(account.address, 101, 0)
    assert account.used == 900
    mode(give_memory)(account.address, address)
    mode(charge)(account.address, 1000)
    assert account.used == 1000


def filled(account, keys):
    functions = store_functions(LAYOUT, None, True)
    store = KeyedStore(functions.entry, keeps_text=True, account=account)
    rows = pa.record_batch(
        {"k": [f"a long enough key {n}" for n in range(keys)], "v": np.arange(keys)}
    )
    functions.load(store, functions.columns(("k",), ("v",)), rows, replace=False)
    return store


def test_a_store_gives_everything_back():
    account = Account.allocate()
    store = filled(account, 20_000)
    assert store.count == 20_000
    assert account.used >= store.size_bytes > 20_000 * (8 + 16)
    del store
    assert account.used == 0


def test_windows_give_everything_back():
    account = Account.allocate()
    entry = store_functions(LAYOUT, None, False).entry
    windows = OpenWindows(entry, keeps_text=True, account=account)
    for n in range(50):
        windows.open(10 * n, 10 * n + 10, 10 * n + 10)
    by_host(grow_panes)(windows.panes)
    windows.panes.gathered = by_host(take_spare)(windows.panes)  # as in the middle of a window
    used = account.used
    windows.close([10 * n for n in range(45)])
    assert account.used < used and len(windows.stores) == 5
    del windows
    assert account.used == 0


def test_an_account_lives_as_long_as_what_counts_against_it():
    """Whoever dies first: a store gives its memory back to an account that is there."""
    functions = store_functions(LAYOUT, None, compiled=True)
    for made in (
        lambda account: KeyedStore(functions.entry, keeps_text=True, account=account),
        lambda account: OpenWindows(functions.entry, keeps_text=True, account=account),
    ):
        account = Account.allocate()
        gone = weakref.ref(account)
        store = made(account)
        assert account.used > 0
        del account
        assert gone() is not None
        del store
        assert gone() is None


def chain(address, following):
    while address:
        yield address
        address = following(address)


def test_what_the_host_may_look_at_stays_while_windows_come_and_go():
    """`metrics()` walks over windows while a worker closes them and makes the directory larger:
    what it finds then may be old, but it is memory of theirs."""
    account = Account.allocate()
    windows = OpenWindows(
        store_functions(LAYOUT, None, True).entry, keeps_text=True, account=account
    )
    panes, looked_at, directories = windows.panes, {}, set()
    for start in range(0, 400, 40):
        for pane in range(start, start + 40):
            windows.open(pane, pane, pane)
            directories.add(panes.directory)
        looked_at |= {store.header.address: store for store in windows.stores.values()}
        used = account.used
        windows.close(list(range(start, start + 40)))
        assert account.used < used  # records, index and strings are given back
    kept = [chain(first, lambda at: Store(at).next) for first in (panes.spare, panes.headers)]
    assert set(looked_at) == {address for each in kept for address in each} and len(looked_at) == 40
    assert set(chain(panes.directory, lambda at: Piece(at - PIECE).next)) == directories
    assert len(directories) > 1 and sum(store.size_bytes for store in looked_at.values()) > 0
