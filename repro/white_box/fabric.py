"""Figures 18 and 19: Swift beside traffic that does not yield, and what paths show. And losses."""

from figures import Figure
from simulations import spread

from . import LINE, median_from, of_stream, streams, trace

UNYIELDING = "policy=cc=fixed:4M,path=spray"
RACK = {"nodes": 4, "hosts-per-leaf": 4, "queue": "512K", "end": "8ms", "measure": "3ms",
        "acknowledge-every": 4}


# For a round trip of 1.5 us and a bandwidth-delay product of 19 KB.
SWIFT = ("cc=swift:target=2611ns:range=746ns:ai=16704:min=8352:max=27984:initial=27984:loss=5,"
         "path=spray,loss=path-order")


def swift(runs):
    shares = list(range(0, 90, 10))
    lines = {}
    for share in shares:
        each = ["0-1 size=1M depth=4"]
        if share:
            each.append(f"2-1 size=16K depth=256 rate={share}G {UNYIELDING}")
        lines[share] = streams(each, {**RACK, "series-every": "20us", "policy": SWIFT})
    runs.make(lines.values())
    rows, curve = [], []
    for share in shares:
        line = lines[share]
        rtts, windows = [], []
        for result in runs.results(line):
            rtts.append(median_from(trace(result, "rtt_us")[0], 3000))
            windows.append(median_from(trace(result, "window_bytes")[0], 3000) / 1024)
        rates = of_stream(runs, line, 0, "gbps")
        curve.append((sorted(rates)[len(rates) // 2], sorted(rtts)[len(rtts) // 2]))
        # 4,096 bytes of payload in 4,242 on the wire.
        left = (LINE - share * 4242 / 4096) * 4096 / 4242
        rows.append([share, f"{left:.1f}", spread(rates, 1), f"{curve[-1][0] / left:.0%}",
                     spread(windows, 1), spread(rtts), int(runs.median(line, "drops"))])

    def draw(axes):
        axes.plot(*zip(*sorted(curve)), "o-")
        axes.set_xlabel("Swift's rate, Gb/s")
        axes.set_ylabel("round trip, us")

    return Figure(
        "Figure 18", "Swift beside background that does not yield, on a line of 100 Gb/s",
        ["background, Gb/s", "room left, Gb/s", "Swift, Gb/s", "of it", "window, KB",
         "round trip, us", "drops"], rows,
        "the target delay grows as the rate falls; the rate settles at what 20, 40 and 60 Gb/s of "
        "background leave.",
        "The curve is the round trip at which it settles, and not the target that is computed. "
        "Swift's target is three quarters of a round trip above it.", draw)


# Hosts 0 to 3 are on switch 8, hosts 4 to 7 on 9; 10 to 13 are the spines, one for each path.
PATHS = {"nodes": 8, "hosts-per-leaf": 4, "paths": 4, "routing": "source", "latency": "500ns",
         "queue": "512K", "end": "8ms", "measure": "0ms", "chunk": "4K", "acknowledge-every": 1,
         "policy": "cc=fixed:1M,path=spray", "series-every": "20us", "seeds": 1}
PROBE = "0-4 size=64K depth=4 rate=20G"


def paths_of(result):
    """Times, and each path's round trips and if it is believed to work."""
    rows = [row for row in result["series"] if row["stream"] == "0"]
    of = lambda column: [[row[column].split(";")[path] for row in rows] for path in range(4)]
    return ([float(row["now_us"]) for row in rows],
            [[float(value) for value in each] for each in of("path_rtt_us")],
            [[value == "1" for value in each] for each in of("paths_usable")])


def draw_paths(times, each, works):
    def draw(axes):
        for path in range(4):
            axes.plot(times, [value if ok else None for value, ok in zip(each[path], works[path])],
                      label=f"path {path}", linewidth=0.9)
        axes.set_xlabel("us")
        axes.set_ylabel("smoothed round trip, us")
    return draw


def paths(runs):
    cross = [f"{at}-5 size=64K depth=16 rate={rate}G paths=1 start=1ms end=2ms {UNYIELDING}"
             for at, rate in ((1, 95), (2, 40))]
    line = streams([PROBE, *cross], {**PATHS, "timeout-min": "100us", "delay": "8-11@4ms:5500ns"})
    runs.make([line])
    times, each, works = paths_of(runs.results(line)[0])
    phases = [("nothing else", 500, 1000), ("cross traffic over path 0", 1400, 2000),
              ("none again", 3000, 4000), ("path 1 is 10 us longer", 5000, 8000)]
    rows = []
    for name, begin, end in phases:
        inside = [at for at, now in enumerate(times) if begin <= now < end]
        middle = lambda values: sorted(values[at] for at in inside)[len(inside) // 2]
        rows.append([name, *(f"{middle(values):.1f}" for values in each)])
    return Figure(
        "Figure 19a", "round trips of four paths, in band: cross traffic, and a longer path",
        ["median, us", *(f"path {path}" for path in range(4))], rows,
        "the round trip rises with cross traffic and falls after it; 10 us more on a path show as "
        "such.", "Deterministic: one seed. The round trips are those of the stream's own packets.",
        draw_paths(times, each, works),
        [("figure-19a-trace.csv", ["us", *(f"path {path}" for path in range(4))],
          list(zip(times, *each)))])


def failure(runs):
    timeouts = ["20us", "50us", "100us"]
    lines = {timeout: streams([PROBE], {**PATHS, "timeout-min": timeout, "fail": "9-12@6ms..7ms"})
             for timeout in timeouts}
    runs.make(lines.values())
    rows, drawn = [], None
    for timeout, line in lines.items():
        result = runs.results(line)[0]
        times, each, works = paths_of(result)
        drawn = drawn or draw_paths(times, each, works)
        down = next((now for now, ok in zip(times, works[2]) if now > 6000 and not ok), None)
        back = next((now for now, ok in zip(times, works[2]) if now > 7000 and ok), None)
        rows.append([timeout, f"{down - 6000:.0f} us" if down else "not",
                     f"{back - 7000:.0f} us" if down and back else "", result["lost_on_links"],
                     result["resent"], f"{result['streams']['gbps']:.1f}"])
    return Figure(
        "Figure 19b", "a path fails at its far end for 1 ms",
        ["least time-out", "left after", "taken up again after", "packets lost", "sent again",
         "Gb/s of 20"], rows,
        "a time-out of 100 us shows the failure, probes show the recovery.",
        "The stream loses nothing either way: each lost packet is sent again over another path. A path "
        "is left after three time-outs in a row; with long ones later packets show each loss "
        "first, and the dead path is kept.", drawn)


def loss(runs):
    chances = ["0", "0.0001", "0.001", "0.01"]
    detectors = ["path-order", "sack", "receiver"]
    settings = {"nodes": 2, "hosts-per-leaf": 2, "end": "22ms", "measure": "2ms", "latency": "1us"}
    lines = {(chance, name): streams(["0-1 size=1M depth=4"], {
        **settings, "loss": chance, "policy": f"cc=fixed:256K,path=spray,loss={name}"})
        for chance in chances for name in detectors}
    runs.make(lines.values())
    rows = []
    for chance in chances:
        row = [chance]
        for name in detectors:
            line = lines[chance, name]
            again = runs.median(line, "resent") / runs.median(line, "data_sent")
            row += [runs.spread(line, "streams.gbps", digits=1), f"{again:.2%}",
                    int(runs.median(line, "timeouts"))]
        rows.append(row)

    def draw(axes):
        for name in detectors:
            axes.plot([float(c) for c in chances],
                      [runs.median(lines[c, name], "streams.gbps") for c in chances], "o-", label=name)
        axes.set_xscale("symlog", linthresh=1e-4)
        axes.set_xlabel("loss")
        axes.set_ylabel("Gb/s")

    return Figure(
        "UCCL 6.3.2", f"one stream of 1 MB messages on 100 Gb/s under loss, {runs.options.seeds} seeds",
        ["loss", *(head for name in detectors for head in (f"{name}, Gb/s", "sent again",
                                                           "time-outs"))], rows,
        "UCCL, selective: 77 to 97 % of its clean speed at 0.0001; RDMA NICs (go-back-N): about 23 % "
        "at 1/16384.",
        "All three are selective. Go-back-N is the RoCE engine's and was not run here: "
        "`repro/uccl.py` and `repro/ornic.py` run it, and the NIC model (`fairway nic --loss`).", draw)


EXPERIMENTS = {"fig18": swift, "fig19": lambda runs: [paths(runs), failure(runs)], "loss": loss}
