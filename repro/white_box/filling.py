"""Figures 9 and 16, Table 5: how water-filling comes to its shares."""

from figures import Figure
from simulations import spread

from . import LINE, streams, trace

FLOWS = 8
# A level that is within this of the fair share has settled.
NEAR = 0.1
JOIN_MS = 10
STRATEGIES = {
    "a: others keep half, start from 0": "join=halve:start=0bps",
    "b: others give 1/n, start from 0": "join=scale:start=0bps",
    "c: others give 1/n, start from it": "join=scale:start=fair",
}


def law(**parameters):
    text = ":".join(f"{name}={value}" for name, value in parameters.items())
    return f"water-filling:line=100Gbps:{text}"


def settled(points, flows, fair, begin, end):
    """Time from `begin` until all of the flows stay near the fair share; None if they do not."""
    last, seen = begin, False
    for flow in flows:
        for now, rate in points.get(flow, []):
            if begin <= now < end:
                seen = True
                if abs(rate - fair) > NEAR * fair:
                    last = max(last, now)
    step = end - begin
    return None if not seen or last > begin + 0.98 * step else last - begin


def draw_traces(points):
    def draw(axes):
        for flow, values in sorted(points.items()):
            axes.plot([now / 1000 for now, _ in values], [rate for _, rate in values],
                      label=f"flow {flow}", linewidth=0.8)
        axes.set_xlabel("ms")
        axes.set_ylabel("dequeue rate, Gb/s")
        axes.set_ylim(0, LINE)
    return draw


def figure9(runs):
    each = [f"0-1 size=1M depth=4 count={FLOWS} every={JOIN_MS}ms"]
    time = {"end": f"{FLOWS * JOIN_MS}ms", "measure": "0ms", "series-every": "100us", "seeds": 1}
    lines = {}
    for name, strategy in STRATEGIES.items():
        words = dict(word.split("=") for word in strategy.split(":"))
        lines[name] = streams(each, time, law(floor=0, min="100Mbps", **words))
    runs.make(lines.values())
    figures = []
    for name, line in lines.items():
        result = runs.results(line)[0]
        points = trace(result, "dequeue_gbps")
        rows = []
        for join in range(1, FLOWS):
            begin = join * JOIN_MS * 1000.0
            fair = LINE / (join + 1)
            took = settled(points, range(join + 1), fair, begin, begin + JOIN_MS * 1000)
            rows.append([join + 1, f"{fair:.1f}", "not in 10 ms" if took is None else f"{took:.0f}"])
        table = [(f"{now:.0f}", flow, rate) for flow, values in points.items()
                 for now, rate in values]
        figures.append(Figure(
            f"Figure 9{name[0]}", f"water-filling, a flow joins every {JOIN_MS} ms; {name[3:]}",
            ["flows", "fair share, Gb/s", "settled after, us"], rows,
            "(c) is fair at once and converges; (a) and (b) take longer. Flows joined every 50 ms.",
            "Settled: every dequeue rate stays within 10 % of the fair share; samples of 100 us. "
            "With the law's own `floor=0`, as published.", draw_traces(points),
            [(f"figure-9{name[0]}-trace.csv", ["us", "flow", "gbps"], table)]))
    return figures


def table5(runs):
    each = [f"0-1 size={4 << at}K depth=4" for at in range(FLOWS)]
    steps = {0.02: 294, 0.05: 122, 0.10: 49}
    lines = {}
    for step in steps:
        for mtu in ("4K", "1K"):
            parameters = law(floor=0, step=f"{step * 8000:.0f}Mbps", start="500Mbps", join="reset")
            lines[step, mtu] = streams(each, {"end": "4ms", "measure": "2ms", "mtu": mtu,
                                              "series-every": "2us"}, parameters)
    runs.make(lines.values())
    rows = []
    for step, published in steps.items():
        took = {}
        for mtu in ("4K", "1K"):
            took[mtu] = [settled(trace(result, "dequeue_gbps"), range(FLOWS), LINE / FLOWS, 0, 4000)
                         for result in runs.results(lines[step, mtu])]
        shown = [spread(t, 0) if None not in t else "not in 4 ms" for t in took.values()]
        jain = runs.spread(lines[step, "4K"], "streams.jain", digits=4)
        rows.append([f"{step:.2f}", *shown, published, jain])
    points = trace(runs.results(lines[0.05, "4K"])[0], "dequeue_gbps")
    return [Figure(
        "Table 5 and Figure 16", "eight flows of 4 KB to 512 KB start at 0.5 Gb/s: step and time",
        ["step, GB/s", "packets of 4 KB, us", "packets of 1 KB, us", "published, us",
         "Jain afterwards"], rows,
        "294, 122 and 49 us; smaller steps end fairer.",
        "Until all dequeue rates stay within 10 % of an eighth. A decision comes with a transmit "
        "event, and adds the step for each 4 us for which the flow has used its rate. The policy's "
        "own test, a model that decides every 4 us, needs 72, 29 and 15 decisions "
        "(`docs/policies.md`).", draw_traces(
            {flow: [p for p in values if p[0] < 1500] for flow, values in points.items()}))]


EXPERIMENTS = {"fig9": figure9, "table5": table5}
