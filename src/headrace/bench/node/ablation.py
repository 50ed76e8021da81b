"""What Enjima's two parts are worth, one by one (§5.2.5, fig. 9): the Yahoo query, 2 workers.

    SM   state-based scheduling, blocks: Enjima itself (`latency_optimized`)
    TM   thread-based scheduling (a thread for each operator), blocks
    SQ   state-based scheduling, queues
    TQ   thread-based scheduling, queues

Queues (§4): rows travel one by one. Each has memory of its own and a place in the ring of a port,
and is given, taken and worked on alone. What differs from the paper's: its memory comes from the
pool of its producer, not from an allocator. Blocks of one row are dearer than entries of a queue
that is made for rows: to the paper's own baseline the distance would be smaller.

No operators are fused, on any side: between fused ones there is nothing to schedule or to hand on.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.bench.figure import Found
from headrace.bench.harness import in_turns
from headrace.bench.queries import How

from .bench import ENGINE, Bench, ysb_side

STATE = How(ENGINE, 2, "none", policy="latency_optimized")
THREAD = How(ENGINE, 2, "none", scheduler="dedicated")
SIDES = {
    "SM": STATE,
    "TM": THREAD,
    "SQ": replace(STATE, transport="queues"),
    "TQ": replace(THREAD, transport="queues"),
}


def ablation(bench: Bench) -> dict[str, Found]:
    """Events per second with both parts, to those with neither."""
    seconds = bench.settings.seconds / 2
    sides = {name: ysb_side(bench.ysb, how, seconds) for name, how in SIDES.items()}
    turns = in_turns(sides, bench.settings.rounds, warm_up=False, say=bench.say)
    duels = {name: turns.duel("SM", name) for name in SIDES if name != "SM"}
    details = {
        **duels["TQ"].said(),
        "to_each": {name: round(duel.ratio, 3) for name, duel in duels.items()},
    }
    return {"ablation": Found(duels["TQ"].ratio, turns.correct, details)}
