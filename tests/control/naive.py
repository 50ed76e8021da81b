"""Slow, obvious versions of what policies compute: recursion and brute force, from the papers."""

from math import inf

from hypothesis import strategies as st

from headrace.control import Features, Graph


@st.composite
def graphs(draw, most=8):
    """A graph without cycles: edges go from lower to higher numbers, then numbers are shuffled."""
    count = draw(st.integers(1, most))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=12)) if pairs else []
    number = draw(st.permutations(range(count)))
    edges = [(number[a], number[b]) for a, b in chosen]
    # operators that are connected belong to one query
    query = list(range(count))
    for _ in range(count):
        for a, b in edges:
            query[a] = query[b] = min(query[a], query[b])
    return Graph.of([f"op{n}" for n in range(count)], edges, query)


@st.composite
def features(draw, **fixed):
    """Features of a random graph; all values are small numbers, so that equal ones happen."""
    graph = draw(graphs())
    small = st.integers(0, 6).map(float)
    columns = {
        "cost": st.sampled_from([0.25, 0.5, 1.0, 2.0]),
        "selectivity": st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]),
        "pending": small,
        "head_time": st.one_of(small, st.just(inf)),
        "last_scheduled": small,
        "output_queue": small,
        "output_room": small,
        "latency_gradient": st.sampled_from([-2.0, -0.5, 0.0, 0.5, 2.0]),
        "workers": st.integers(0, 3).map(float),
        "worker_time": small,
        "busy_time": small,
        "parallelism": st.integers(1, 3).map(float),
        "rate": small,
        "user_priority": small,
        "query_class": st.integers(0, 1).map(float),
        "deadline": st.one_of(small, st.just(inf)),
    }
    values = {
        name: draw(st.lists(each, min_size=len(graph), max_size=len(graph)))
        for name, each in columns.items()
    }
    return Features.given(graph, now=10.0, next_period=12.0, **{**values, **fixed})


def output_selectivity(f, i):
    behind = f.graph.downstream[i]
    return f.selectivity[i] * max((output_selectivity(f, k) for k in behind), default=1.0)


def output_cost(f, i):
    through = output_selectivity(f, i)
    own = f.cost[i] / through if through else inf
    return own + sum(output_cost(f, k) for k in f.graph.downstream[i])


def rows_out(f, i):
    """Rows that leave for one row into i: all ways to a sink."""
    behind = f.graph.downstream[i]
    return f.selectivity[i] * (sum(rows_out(f, k) for k in behind) if behind else 1.0)


def seconds_for(f, i):
    return f.cost[i] + f.selectivity[i] * sum(seconds_for(f, k) for k in f.graph.downstream[i])


def rows_into(f, i):
    """Rows that reach i for one row into each ingress."""
    before = f.graph.upstream[i]
    return sum(rows_into(f, k) * f.selectivity[k] for k in before) if before else 1.0


def depth(graph, i):
    return max((depth(graph, k) + 1 for k in graph.upstream[i]), default=0)


def envelope(cost, selectivity):
    """Babcock's lower envelope by trying every end of every segment, in rational numbers."""
    from fractions import Fraction

    time, size = [Fraction(0)], [Fraction(1)]
    for c, s in zip(cost, selectivity):
        time.append(time[-1] + Fraction(c))
        size.append(size[-1] * Fraction(s))
    found, start = [], 0
    while start < len(cost):
        ends = range(start + 1, len(size))
        slope = {end: (size[start] - size[end]) / (time[end] - time[start]) for end in ends}
        end = max(end for end in ends if slope[end] == max(slope.values()))
        found += [float(slope[end])] * (end - start)
        start = end
    return found


def post_order(graph):
    """Operators with their inputs before them, sinks as roots."""
    found = []

    def visit(i):
        for before in graph.upstream[i]:
            visit(before)
        if i not in found:
            found.append(i)

    for i in range(len(graph)):
        if not graph.downstream[i]:
            visit(i)
    return found
