"""`process` in the order of event time: rows wait, and so do timers, rows without columns.

The state of a key is a record, too. Where states are forgotten (`ttl`), it lies in a pane of the
last time that it was used, one that is long enough for it (`plan/windows/timed.py`), and moves over
where it is used again; panes are forgotten as a whole. A state says in a field of its own (`WAKES`)
when the timer of it that waits goes off; any other timer of its key that comes has been overtaken.
A function works on a copy of the state, which is written back when the row, or all timers of a
moment, have succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.functions import Function
from headrace.plan.nodes import WATERMARK
from headrace.plan.timed import TimedProcess, Timer
from headrace.plan.types import bool_, int64
from headrace.plan.windows.waiting import Waiting

from .context import Context
from .expressions import Resources, Scope
from .given import given_columns
from .layouts import AT, FIELD, WAKES
from .stores import assign, both_words, fields_of, value_of
from .values import argument, nothing
from .waiting import Turns, ask_for_taking_pane, bytes_of, enter_in_turn
from .writer import Value

ROW = Value(bool_, ("False",))  # the side of rows; timers and states are on the other one


def enter_timed_row(context: Context, scope: Scope, node: TimedProcess) -> None:
    """Keep a row until its time has come."""
    enter_in_turn(context, scope, node, ROW)


def timers_text(node: TimedProcess, resources: Resources) -> str:
    """advance(task): let rows and timers have their turn. frame(task): what a generator needs."""
    made = _Timed(node, resources)
    made.turns()
    return f"{made.fields_text()}{made.text()}\n\n{made.frame_text()}"


class _Timed(Turns):
    """The function in the making."""

    node: TimedProcess

    def __init__(self, node: TimedProcess, resources: Resources) -> None:
        super().__init__(node, resources)
        assert isinstance(node.window, Waiting)
        self._ttl, self._size = node.window.kept, node.window.size
        self._fields = node.state.fields
        self._texts = [k for k, field in enumerate(self._fields) if field.type.is_view]
        if self._texts or any(field.type.is_view for each in node.outputs for field in each.fields):
            resources.creates_text = True

    def fields_text(self) -> str:
        """The record of a user's state, with strings as words."""
        fields = [("heap", "i64")] if self._texts else []  # as functions.state_record lays it out
        for k, field in enumerate(self._fields):
            fields += fields_of(f"{FIELD}{k}", field.type)
        return f"StateFields = make_record('StateFields', {fields!r})\n"

    def frame_text(self) -> str:
        """frame(task): the bytes that the largest generator needs when it is suspended."""
        sizes = ["0"]
        for function in (self.node.function, *(timer.function for timer in self.node.timers)):
            if function.is_generator:
                given = [argument(nothing(kind)) for kind in function.inputs]
                state = "State(Task(task_address).scratch)"
                sizes.append(f"frame_bytes({self._call(function, given, state)})")
        made = sizes[-1] if len(sizes) <= 2 else f"max({', '.join(sizes)})"
        return f"@compiled\ndef frame(task_address):\n    return {made}\n"

    # ---- the turn of a row, or of a timer ------------------------------------------------------

    def turns(self) -> None:
        """One after the other, by time and key, timers before rows."""
        writer = self.writer
        self.put_into_order()
        if self._ttl is not None:
            writer.line(f"task.levels = levels_of(panes, {self._size})")
        with writer.block("while is_due(panes, task.watermark):"):
            self.leave_if_full()
            self.next_row()
            writer.line(f"time = entry.{AT}")
            writer.line(f"is_timer = {self.side('entry').word}")
            self._find_state()
            writer.line("task.store, task.number = kept, number")  # for whoever explains an error
            self._skip_overtaken()
            with writer.block("if task.suspended == RUNNING and task.calling == 0:"):
                self._copy_state()
            with writer.block("if task.suspended != BEFORE_COMMIT:"):
                self._functions()
            self._finish()
        writer.line("end_waiting(task)")
        self.return_("CONSUMED")

    def _find_state(self) -> None:
        """`kept` and `number`: the pane and the record of the state; 0 and -1: there is none."""
        writer = self.writer
        writer.line("kept, number = 0, -1")
        if self._ttl is None:
            self._look(self.node.window.pane(self.words, "time"))
            return
        with writer.block("for level in range(LEVELS):"):
            with writer.block("if number >= 0 or task.levels >> level == 0:"):
                writer.line("break")
            with writer.block("if (task.levels >> level) & 1 == 0:"):
                writer.line("continue")
            writer.line(f"first = state_pane(time, {self._size}, level)")
            self._look("first")
            with writer.block("if number < 0:"):
                self._look(f"first - ({self._size} << level)")

    def _look(self, pane: str) -> None:
        writer = self.writer
        writer.line(f"pane = find_pane(panes, {pane})")
        with writer.block("if pane != 0:"):
            writer.line(f"found = {self.found('Store(pane)', 'True', '0')}")
            with writer.block("if found >= 0:"):
                with writer.block(f"if {self.entry('Store(pane)', 'found')}.{WAKES} != MOVED:"):
                    writer.line("kept, number = pane, found")

    def _skip_overtaken(self) -> None:
        """A timer that its state does not wait for is none any more."""
        writer = self.writer
        writer.line("wakes = LAST")
        with writer.block("if number >= 0:"):
            writer.line(f"wakes = {self.entry('Store(kept)', 'number')}.{WAKES}")
        with writer.block("if is_timer and wakes != time:"):
            self.pass_row()
            writer.line("continue")

    def _copy_state(self) -> None:
        """The copy that functions work on; a new state where there is none, or where it was to be
        forgotten by now."""
        writer = self.writer
        if self.resources.creates_text:
            writer.line("empty_heap(heap)")
        writer.line("copied, first_state = StateFields(task.scratch), StateFields(task.initial)")
        for k in range(len(self._fields)):
            assign(writer, self._field(k, "copied"), self._field(k, "first_state"))
        with writer.block("if number >= 0:"):
            writer.line(f"state = {self.entry('Store(kept)', 'number')}")
            lives = "True"
            if self._ttl is not None:
                timers = [f"{self._set_for(timer, 'state').valid}" for timer in self.node.timers]
                lives = " or ".join([f"state.{AT} + {self._ttl} > time", *timers])
            with writer.block(f"if {lives}:"):
                for k in range(len(self._fields)):
                    assign(writer, self._field(k, "copied"), self._field(k, "state"))
        if self._texts:
            writer.line("State(task.scratch).heap = task.heap")

    # ---- users' functions ----------------------------------------------------------------------

    def _functions(self) -> None:
        """That of a row, or those of the timers that are set for now."""
        writer, node = self.writer, self.node
        with writer.block("if is_timer:"):
            writer.line("count_timer(task)")
            for k, timer in enumerate(node.timers):
                with writer.block(f"if task.calling == {k}:"):
                    self._timer(k, timer)
                    writer.line(f"task.calling = {k + 1}")
        with writer.block("else:"):
            writer.line("count_row(task)")
            self._give(node.function, [argument(self.column(n)) for n in node.arguments], "row")

    def _timer(self, k: int, timer: Timer) -> None:
        """A timer that was set for now, and that no other one has changed meanwhile."""
        writer = self.writer
        writer.line("copied = StateFields(task.scratch)")
        writer.line(f"state = {self.entry('Store(kept)', 'number')}")
        states = [self._set_for(timer, record) for record in ("state", "copied")]
        due = " and ".join(f"{v.valid} and is_over({v.word}, time)" for v in states)
        key = dict(zip(self.node.key, self.keys_of("entry"), strict=True))
        given = []
        for name in timer.arguments:
            now = Value(self.node.rows[name].required, ("time",))
            given.append(argument(now if name == self.node.at else key[name]))
        with writer.block(f"if task.suspended == IN_ROW or ({due}):"):
            with writer.block("if task.suspended == RUNNING:"):
                writer.line(f"{states[1].valid} = False")
                writer.line("task.went_off = 1")
            self._give(timer.function, given, f"timer_{k}")

    def _call(self, function: Function, given: Sequence[str], state: str) -> str:
        return f"{self.resources.function(function)}({', '.join([state, *given])})"

    def _give(self, function: Function, given: Sequence[str], name: str) -> None:
        """Call a function, and give what it yields. The loop stands twice: to begin, and to go on
        where the output was full."""
        writer, call = self.writer, self._call(function, given, "State(task.scratch)")
        if not function.is_generator:
            writer.line(call)
            return
        with writer.block("if task.suspended == RUNNING:"):
            writer.line(f"of_{name} = {call}")
            self._yields(function, name, f"of_{name}", fresh=True)
        with writer.block("else:"):
            self._yields(function, name, f"resume({call}, task.frame)", fresh=False)
            writer.line("task.suspended = RUNNING")

    def _yields(self, function: Function, name: str, generator: str, fresh: bool) -> None:
        writer, node = self.writer, self.node
        result = f"{name}_gives" if fresh else f"{name}_goes_on"
        with writer.block(f"for {result} in {generator}:"):
            values = dict(zip(node.key, self.keys_of("entry"), strict=True))
            made = node.window.results(self.words, "(time + 1)", {})
            values |= {n: Value(node.schema[n], (word,)) for n, word in made.items()}
            values[WATERMARK] = Value(int64, ("time",))
            scope = Scope(writer, node.schema, {}, self.resources)
            self.write(values | given_columns(scope, node, function, result))
            with writer.block("if written == room:"):
                if fresh:
                    writer.line(f"suspend({generator}, task.frame)")
                    writer.line("task.suspended = IN_ROW")
                self.return_("OUTPUT_FULL")

    # ---- behind them -----------------------------------------------------------------------------

    def _finish(self) -> None:
        """The row, or the timers of this moment, have succeeded: the copy is the state, and the
        next timer waits. What there must be room for is asked for before anything changes."""
        writer = self.writer
        writer.line("copied = StateFields(task.scratch)")
        self._next_timer()
        writer.line("awaited = LAST if is_timer else wakes")
        self._have_record()
        texts = [(self._field(k, "copied"), self._field(k, "target")) for k in self._texts]
        words = both_words(writer, texts)
        if texts:
            wanted = " + ".join(f"changed_bytes({both})" for both in words)
            with writer.block(f"if lacks_bytes(states, {wanted}):"):
                self._stop_before_commit("states")
        with writer.block("if following < awaited:"):
            self._set_timer()
            writer.line("awaited = following")
        for (new, _), both in zip(texts, words, strict=True):
            writer.line(f"{new.words[1]} = keep_changed({both}, Heap(states.heap))")
        writer.line("used = time")
        with writer.block("if is_timer and following == LAST and task.went_off == 0:"):
            writer.line(f"used = {self.entry('Store(kept)', 'number')}.{AT}")  # was taken back
        if self._ttl is not None:
            with writer.block("if number >= 0 and kept != states.address:"):
                writer.line(f"state = {self.entry('Store(kept)', 'number')}")
                writer.line(f"state.{WAKES} = MOVED")
                writer.line("note_change(Store(kept), state, number)")
        for k in range(len(self._fields)):
            assign(writer, self._field(k, "target"), self._field(k, "copied"))
        writer.line(f"target.{AT}, target.{WAKES} = used, awaited")
        writer.line("note_change(states, target, record)")
        self.pass_row()
        writer.line("task.suspended, task.calling, task.went_off = RUNNING, 0, 0")

    def _have_record(self) -> None:
        """`target`: the record number `record` of the pane `states`, in which the state is to lie;
        one that was there before, or a new one, which counts when it is written."""
        writer = self.writer
        if self._ttl is None:
            pane, end = self.node.window.pane(self.words, "time"), "LAST"
        else:
            writer.line(f"needed = {self._ttl}")
            with writer.block("if following != LAST:"):
                writer.line("needed = max(needed, following - time)")
            writer.line(f"level = level_for(needed, {self._size})")
            writer.line(f"lies_in = state_pane(time, {self._size}, level)")
            pane, end = "lies_in", f"lies_in - level + 2 * ({self._size} << level)"
        writer.line(f"pane = find_pane(panes, {pane})")
        with writer.block("if pane == 0:"):
            writer.line("forget_states(panes, time)")
            writer.line(f"task.need_window = {pane}")
            writer.line(f"task.need_first = {end}")
            writer.line("task.need_last = task.need_first")
            writer.line("task.needs_window = 1")
            self._stop_before_commit()
        writer.line("states = Store(pane)")
        writer.line(f"record = {self.found('states', 'True', '0')}")
        with writer.block("if record < 0:"):
            writer.line(f"record = {self.found('states', 'True', '0', 'window_insert')}")
            with writer.block("if record < 0:"):
                self._stop_before_commit("states")
            writer.line(f"target = {self.entry('states', 'record')}")
            writer.line(f"target.{WAKES} = MOVED")
            writer.line("note_change(states, target, record)")
        writer.line(f"target = {self.entry('states', 'record')}")

    def _next_timer(self) -> None:
        """`following`: when the next timer of the state goes off."""
        writer = self.writer
        writer.line("following = LAST")
        for timer in self.node.timers:
            value = self._set_for(timer, "copied")
            with writer.block(f"if {value.valid}:"):
                writer.line(f"following = min(following, alarm({value.word}, time))")

    def _set_timer(self) -> None:
        """A timer enters the pane that takes rows, and the queue."""
        writer = self.writer
        with writer.block("if lacks_queue(panes, 1):"):
            writer.line("task.needs_queue = panes.waiting + 1")
            self._stop_before_commit()
        writer.line("taking = taking_pane(panes)")
        with writer.block("if taking == 0:"):
            ask_for_taking_pane(writer)
            self._stop_before_commit()
        writer.line("takes = Store(taking)")
        texts = [key for key in self.keys_of("entry") if key.type.is_view]
        if texts:
            with writer.block(f"if lacks_bytes(takes, {bytes_of(texts)}):"):
                self._stop_before_commit("takes")
        writer.line(f"made = {self.found('takes', 'True', 'takes.count', 'window_append')}")
        with writer.block("if made < 0:"):
            self._stop_before_commit("takes")
        writer.line(f"timer = {self.entry('takes', 'made')}")
        writer.line(f"timer.{AT} = following")
        writer.line("note_change(takes, timer, made)")
        writer.line("wait_until(panes, takes, following)")
        writer.line("takes.queued += 1")
        writer.line("queued_at = place_of(takes, made, True)")
        writer.line("push_row(panes, following, window_prefix(timer), queued_at)")

    def _stop_before_commit(self, store: str = "") -> None:
        self.writer.line("task.suspended = BEFORE_COMMIT")
        if store:
            self.writer.line(f"task.need = {store}.address")
        self.return_("NEED_MEMORY")

    # ---- pieces --------------------------------------------------------------------------------

    def _field(self, k: int, record: str) -> Value:
        """A field of a user's state: in a record of ours, or in the copy."""
        return value_of(f"{FIELD}{k}", self._fields[k].type, record)

    def _set_for(self, timer: Timer, record: str) -> Value:
        """When a timer is to go off."""
        return self._field([field.name for field in self._fields].index(timer.field), record)
