"""Table 2, Figures 11 to 13 and Figure 17: how a NIC is shared."""

from figures import Figure
from simulations import spread

from . import SCHEDULERS, of_stream, streams

# Long enough that every flow's turn comes many times.
SHORT = {"end": "6ms", "measure": "2ms"}


def table2(runs):
    alone = {"throughput": "0-1 size=4K depth=16", "latency": "0-1 size=256 depth=4"}
    hungry = "0-1 size=64K depth=16"
    lines = {(name, sched): streams([flow, *([hungry] if sched else [])], SHORT,
                                    SCHEDULERS[sched or "greedy"])
             for name, flow in alone.items() for sched in [None, *SCHEDULERS]}
    runs.make(lines.values())
    rows = []
    for name in alone:
        row = [f"{name}-sensitive ({'4 KB' if name == 'throughput' else '256 B'})"]
        for sched in [None, *SCHEDULERS]:
            line = lines[name, sched]
            figure, unit = ("gbps", "Gb/s") if name == "throughput" else ("p50_us", "us")
            row.append(f"{spread(of_stream(runs, line, 0, figure))} {unit}")
        rows.append(row)
    return Figure(
        "Table 2", "a small flow alone and beside one of 64 KB messages",
        ["", "alone", *(f"beside it, {sched}" for sched in SCHEDULERS)], rows,
        "4 KB: 88.30 Gb/s alone, 33.25 beside it. 256 B: 2.44 us alone, 5.31 beside it (default "
        "scheduler).",
        "Depth 16 each (4 of the flow of 256 B). Nothing is drawn at random here: one seed is all.")


def figure11(runs):
    sizes = ["256", "1K", "4K", "16K", "64K", "256K", "1M"]
    pairs = [(a, b) for at, a in enumerate(sizes) for b in sizes[at:]]
    lines = {(sched, pair): streams([f"0-1 size={size} depth=16" for size in pair], SHORT, law)
             for sched, law in SCHEDULERS.items() for pair in pairs}
    runs.make(lines.values())

    def of(sched, pair, figure):
        return runs.median(lines[sched, pair], f"streams.{figure}")

    rows = [[f"{a} and {b}", *(f"{of(s, (a, b), 'jain'):.3f} / {of(s, (a, b), 'utilisation'):.3f}"
                               for s in SCHEDULERS)] for a, b in pairs]
    best = max((of("water-filling", pair, "jain") / of("greedy", pair, "jain"), pair)
               for pair in pairs)

    def draw(axes):
        for sched in SCHEDULERS:
            axes.plot(range(len(pairs)), [of(sched, pair, "jain") for pair in pairs], "o-",
                      label=f"{sched}: Jain")
        axes.set_xticks(range(len(pairs)), [f"{a}/{b}" for a, b in pairs], rotation=90, fontsize=6)
        axes.set_ylabel("Jain's index")
        axes.figure.subplots_adjust(bottom=0.2)

    return Figure(
        "Figure 11", "two flows of two message sizes: Jain's index / utilisation",
        ["message sizes", *SCHEDULERS], rows,
        "water-filling is up to 1.78 times fairer than the default (4 KB beside 1 MB); static "
        "starves large messages beside 256 B.",
        f"Here water-filling is up to {best[0]:.2f} times fairer than greedy "
        f"({best[1][0]} beside {best[1][1]}). A simulated NIC posts without limit, so 256 B and "
        "depth 16 carry more than theirs. Deterministic: one seed is all.", draw)


def many_flows(runs, verb):
    counts = [2, 4, 16, 64, 256, 1024] if not runs.options.quick else [2, 16, 64]
    lines, whole = {}, "greedy, messages whole"
    kinds = [whole, *SCHEDULERS]
    for count in counts:
        # A channel has 256 messages under way; more flows than that share several receivers.
        receivers = -(-count // 64)
        each = [f"0-{1 + at} verb={verb} size=4K..1M depth=4 count={count // receivers}"
                for at in range(receivers)]
        nodes = {"nodes": receivers + 1, "hosts-per-leaf": receivers + 1}
        # Every message under way passes twice before it counts.
        time = {"measure": f"{2 + count // 4}ms", "end": f"{10 + count}ms"}
        for sched, law in SCHEDULERS.items():
            lines[count, sched] = streams(each, {**nodes, **time}, law)
        lines[count, whole] = streams(each, {**nodes, **time, "chunk": "1M"}, "greedy")
    runs.make(lines.values())
    rows = [[count, *(f"{runs.spread(lines[count, s], 'streams.jain', digits=3)} / "
                      f"{runs.median(lines[count, s], 'streams.utilisation'):.3f}"
                      for s in kinds)] for count in counts]

    def draw(axes):
        for sched in kinds:
            values = [runs.values(lines[count, sched], "streams.jain") for count in counts]
            middle = [sorted(each)[len(each) // 2] for each in values]
            errors = [[m - min(v) for m, v in zip(middle, values)],
                      [max(v) - m for m, v in zip(middle, values)]]
            axes.errorbar(counts, middle, errors, fmt="o-", label=sched, capsize=3)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("flows")
        axes.set_ylabel("Jain's index")

    ratio = max(runs.median(lines[count, "water-filling"], "streams.jain")
                / runs.median(lines[count, whole], "streams.jain") for count in counts)
    if verb == "read":
        return Figure(
            "Figure 17", "Figure 12 with READs: the scheduler is the responder's, "
            f"{runs.options.seeds} seeds: Jain's index / utilisation", ["flows", *kinds], rows,
            "similar to WRITEs (Figure 12): static and water-filling are fairer while the line stays "
            "used; the scheduler takes effect at the responder, which sends the data (words only).",
            f"Here water-filling is up to {ratio:.2f} times fairer than a responder that sends "
            "messages whole. Up to 64 flows go to each requester.", draw)
    return Figure(
        "Figure 12", f"flows of 4 KB to 1 MB drawn at random, depth 4, {runs.options.seeds} seeds: "
        "Jain's index / utilisation", ["flows", *kinds], rows,
        "static and water-filling up to 1.88 times fairer (0.51 to 0.96 at 4 flows); all saturate "
        "the line; beyond 100 flows fairness falls, as their NIC limits small rates badly.",
        f"Here water-filling is up to {ratio:.2f} times fairer than a NIC that sends messages whole, "
        "as theirs seems to. Our greedy cuts chunks of 32 KB, which makes most of these sizes alike. "
        "Up to 64 flows go to each receiver.", draw)


def figure13(runs):
    latency, hungry = "0-1 size=256 depth=4", "0-1 size=64K depth={}"
    lines = {(depth, sched): streams([latency, hungry.format(depth)], SHORT, law)
             for depth in (16, 128) for sched, law in SCHEDULERS.items()}
    alone = streams([latency], SHORT, "greedy")
    chunks = {sched: streams([latency, hungry.format(128)], {**SHORT, "chunk": "4K"}, law)
              for sched, law in SCHEDULERS.items()}
    runs.make([*lines.values(), alone, *chunks.values()])
    rows = [["alone", "", spread(of_stream(runs, alone, 0, "p50_us")),
             spread(of_stream(runs, alone, 0, "p99_us")), "", ""]]
    named = [(f"{sched}, depth {depth}", line) for (depth, sched), line in lines.items()]
    named += [(f"{sched}, depth 128, chunks of 4 KB", line) for sched, line in chunks.items()]
    values = {}
    for name, line in named:
        lat = of_stream(runs, line, 0, "p50_us")
        base = values.setdefault(name.split(",", 1)[1], lat[0])
        rows.append([name, f"{1 - lat[0] / base:.1%}", spread(lat),
                     spread(of_stream(runs, line, 0, "p99_us")),
                     spread(of_stream(runs, line, 1, "gbps"), 1),
                     f"{runs.median(line, 'streams.utilisation'):.3f}"])
    return Figure(
        "Figure 13", "a flow of 256 B (depth 4) beside one of 64 KB",
        ["", "p50 below greedy's", "p50 of 256 B, us", "p99, us", "64 KB, Gb/s", "utilisation"], rows,
        "water-filling takes up to 52.8 % of the latency off at full utilisation; static likewise, "
        "but halves the other flow's rate.",
        "Greedy here takes a chunk of each *message* in turn, so that depth counts; the paper's NIC "
        "takes turns by queue pair, and loses less.")


EXPERIMENTS = {"table2": table2, "fig11": figure11,
               "fig12": lambda runs: many_flows(runs, "write"), "fig13": figure13,
               "fig17": lambda runs: many_flows(runs, "read")}
