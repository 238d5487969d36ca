"""Figure 20: receivers that say what may come."""

from figures import Figure
from simulations import spread

from . import LINE, of_stream, streams, trace

RACK = {"nodes": 20, "hosts-per-leaf": 20, "queue": "1M", "latency": "500ns", "end": "24ms",
        "measure": "8ms"}
UNYIELDING = "policy=cc=fixed:4M,path=spray"
# For a round trip of 2.7 us and a bandwidth-delay product of 34 KB.
SWIFT = ("cc=swift:target=4711ns:range=1346ns:ai=16704:min=8352:max=50484:initial=50484:loss=5,"
         "path=spray,loss=path-order")
CONTROLS = {
    "EQDS": {"policy": "cc=eqds,path=spray"},
    "Homa": {"policy": "cc=homa,path=spray"},
    "Swift": {"policy": SWIFT},
    "NSCC": {},
    "DCQCN": {"policy": "cc=dcqcn:line=100Gbps,path=spray"},
    "DCQCN and pauses": {"policy": "cc=dcqcn:line=100Gbps,path=spray", "pfc": "200K:160K"},
}
# A receiver that takes a quarter of the line for 30 ms, and the laws that its signal reaches.
BUSY = (2000.0, 32000.0)
TAKES = 25
PRESSED = {
    "back-pressure": "cc=backpressure,path=spray",
    "NSCC": "cc=nscc,path=spray",
    "Swift": SWIFT,
    "EQDS": "cc=eqds,path=spray",
    "none (fixed window of 1 MB)": "cc=fixed:1M,path=spray",
}


def headroom(runs):
    counts = [0, 1, 2, 4, 8, 15]
    named = ["EQDS", "Homa", "Swift", "NSCC", "DCQCN"]
    lines = {(count, name): streams(
        ["0-1 size=1M depth=4", *(f"{2 + at}-1 size=4K depth=8 rate=5G {UNYIELDING}"
                                  for at in range(count))], {**RACK, **CONTROLS[name]})
        for count in counts for name in named}
    runs.make(lines.values())
    rows = []
    for count in counts:
        left = (LINE - 5 * count * 4242 / 4096) * 4096 / 4242
        row = [f"{count + 1}:1", f"{left:.1f}"]
        for name in named:
            line = lines[count, name]
            row += [spread(of_stream(runs, line, 0, "gbps"), 1), int(runs.median(line, "drops"))]
        rows.append(row)

    def draw(axes):
        for name in named:
            axes.plot([count + 1 for count in counts],
                      [sorted(of_stream(runs, lines[count, name], 0, "gbps"))[0]
                       for count in counts], "o-", label=name)
        axes.plot([count + 1 for count in counts],
                  [(LINE - 5 * count * 4242 / 4096) * 4096 / 4242 for count in counts], "k:",
                  label="room left")
        axes.set_xlabel("senders")
        axes.set_ylabel("Gb/s")

    return Figure(
        "Figure 20a, 20b", "a controlled stream beside senders of 5 Gb/s each that do not yield",
        ["incast", "room left, Gb/s", *(head for name in named
                                        for head in (f"{name}, Gb/s", "drops"))], rows,
        "with credit for what the receiver's port has left, the sender takes all of that, from 2:1 "
        "to 16:1.",
        "The paper's credit is the room that is left, and so is EQDS's here; Homa grants the line's "
        "rate, whatever else comes, and what does not fit stands in the queue.",
        draw)


def pressed(runs):
    """Figure 20c: a receiver that is short of memory bandwidth for a while, and says so."""
    settings = {**RACK, "nodes": 4, "hosts-per-leaf": 4, "end": "48ms", "measure": "0ms",
                "series-every": "100us", "seeds": 1, "window": "512",
                "drain": f"1:{TAKES}G@{BUSY[0]:.0f}us..{BUSY[1]:.0f}us"}
    lines = {name: streams(["0-1 size=64K depth=32"], {**settings, "policy": policy})
             for name, policy in PRESSED.items()}
    runs.make(lines.values())
    rows, curves = [], {}
    for name, line in lines.items():
        result = runs.results(line)[0]
        points = trace(result, "rate_gbps")[0]
        curves[name] = points
        within = [rate for now, rate in points if BUSY[0] + 2000 < now <= BUSY[1]]
        after = [now - BUSY[1] for now, rate in points if now > BUSY[1] and rate >= 0.9 * LINE]
        queue = result["receive_queue"]
        rows.append([name, f"{sum(within) / len(within):.1f} ({min(within):.1f}–{max(within):.1f})",
                     f"{after[0] / 1000:.1f}" if after else "not in 16 ms",
                     queue["bytes_max"] // 1024, queue["drops"], queue["pressures"]])

    def draw(axes):
        for name in list(PRESSED)[:2]:
            axes.plot([now / 1000 for now, _ in curves[name]], [rate for _, rate in curves[name]],
                      label=name)
        axes.axvspan(BUSY[0] / 1000, BUSY[1] / 1000, alpha=0.15, label=f"takes {TAKES} Gb/s")
        axes.set_xlabel("ms")
        axes.set_ylabel("Gb/s")

    return Figure(
        "Figure 20c", f"a receiver that takes {TAKES} Gb/s for 30 ms, and signals pressure while "
        "128 KB or more wait in its queue of 512 KB",
        ["control", "Gb/s meanwhile (least–most)", "ms until 90 % of the line", "longest queue, KB",
         "drops", "times pressed"], rows,
        "multiplicative decrease at each signal, additive increase without one (no figures).",
        "The receiver's queue drains at the limited rate; samples of 100 us, those of the first 2 ms "
        "left out.", draw,
        [("figure-20c-trace.csv", ["us", "control", "gbps"],
          [(f"{now:.0f}", name, rate) for name, points in curves.items() for now, rate in points])])


def incast(runs):
    counts = [2, 4, 8, 16]
    lines = {(count, name): streams(
        [f"{2 + at}-1 size=1M depth=2" for at in range(count)], {**RACK, **settings})
        for count in counts for name, settings in CONTROLS.items()}
    runs.make(lines.values())
    rows = []
    for count in counts:
        for name in CONTROLS:
            line = lines[count, name]
            worst = [max(each["p99_us"] for each in result["streams"]["each"])
                     for result in runs.results(line)]
            rows.append([f"{count}:1", name, runs.spread(line, "streams.utilisation", digits=3),
                         runs.spread(line, "streams.jain", digits=3), spread(worst, 0),
                         int(runs.median(line, "queue_bytes_max")) // 1024,
                         int(runs.median(line, "drops")), int(runs.median(line, "pauses"))])

    def draw(axes):
        for name in CONTROLS:
            axes.plot(counts, [runs.median(lines[count, name], "queue_bytes_max") / 1024
                               for count in counts], "o-", label=name)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("senders")
        axes.set_ylabel("longest queue, KB")

    return Figure(
        "Incast", "2:1 to 16:1, streams of 1 MB, two under way each",
        ["incast", "control", "utilisation", "Jain", "worst p99, us", "longest queue, KB", "drops",
         "pauses"], rows,
        "receivers that grant, or that mark as switches do, keep an incast in bounds (no figures).",
        "16 ms after 8 ms of warm-up; the switch has 1 MB a port and marks from 20 %. DCQCN starts at "
        "its line and recovers by 40 Mb/s steps.", draw)


EXPERIMENTS = {"fig20": lambda runs: [headroom(runs), pressed(runs), incast(runs)]}
