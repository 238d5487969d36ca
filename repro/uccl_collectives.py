"""The collective operations and applications of the UCCL paper, for `uccl.py`: ranks on hosts drawn
at random, one path against many.

Messages have at most 256 KiB, the length of a live rank's slot (`slot 256K`).
"""

import traces
from figures import Figure
from simulations import spread

MIB = 1 << 20
ROCE = {"stack": "roce", "pfc": "200K:160K"}
ONE, MANY = "one path", "256 paths, reps"
TRANSPORTS = {
    "RoCE, 1 queue pair": ROCE,
    "RoCE, 4 queue pairs": {**ROCE, "split": 4},
    ONE: {"paths": 1},
    "256 paths, spray": {"path": "spray"},
    "256 paths, p2c": {"path": "p2c"},
    MANY: {},
}
# The transports of runs with 128 ranks and more.
FEW = ("RoCE, 1 queue pair", ONE, MANY)
OPERATIONS = {
    "all-reduce, ring": ("all-reduce", "ring"),
    "all-reduce, two trees": ("all-reduce", "tree"),
    "all-reduce, halving": ("all-reduce", "halving"),
    "all-to-all, pairwise": ("all-to-all", "pairwise"),
    "all-to-all, all at once": ("all-to-all", ""),
}
SLOT = {"slot": "256K"}


def seeds(options):
    return range(1, options.seeds + 1)


def traced(options, name, make, settings):
    """A scenario for each seed, whose trace `make(seed)` returns, in a file of that name."""
    folder = options.out / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for seed in seeds(options):
        file = folder / f"{name}-{seed}.trace"
        text = make(seed)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        lines.append((("trace", str(file)), {**SLOT, **settings, "seed": seed, "seeds": 1}))
    return lines


def placed(options, operation, ranks, size, settings):
    """An operation of so many ranks, on hosts that each seed draws."""
    what, algorithm = OPERATIONS[operation]
    name = f"{what}-{algorithm or 'direct'}-{ranks}-{size}"
    return traced(options, name,
                  lambda seed: traces.collective(what, ranks, size, algorithm, seed), settings)


def gain(runs, slower, faster):
    """How many times as long, by the median of the seeds, each of which is a pair."""
    pairs = zip(runs.values(slower), runs.values(faster))
    return spread([slow / fast for slow, fast in pairs])


def ranks(runs, options):
    """All-reduce and all-to-all of 4 MiB a rank."""
    size = 4 * MIB
    counts = (16, 64) if options.quick else (16, 64, 128, 256, 512)
    lines = {}
    for operation in OPERATIONS:
        for count in counts:
            for name, settings in TRANSPORTS.items():
                if count >= 128 and name not in FEW:
                    continue
                if count == 512 and "pairwise" in operation:
                    # 511 exchanges in a row, each of two packets: the links are idle.
                    continue
                if count == 512 and "all-to-all" in operation and name == MANY:
                    # Two packets a message; 256 paths of 261,632 channels take 9 GB.
                    settings = {**settings, "paths": 16}
                lines[operation, count, name] = placed(options, operation, count, size, settings)
    runs.make(lines.values())
    rows = []
    for operation in OPERATIONS:
        for count in counts:
            each = [lines.get((operation, count, name)) for name in TRANSPORTS]
            if not any(each):
                continue
            many = lines[operation, count, MANY]
            rows.append([operation, count,
                         *(runs.spread(line, digits=0) if line else "" for line in each),
                         gain(runs, lines[operation, count, ONE], many),
                         gain(runs, lines[operation, count, "RoCE, 1 queue pair"], many)])

    def draw(axes):
        for at, operation in enumerate(OPERATIONS):
            for name, style in ((ONE, "s:"), (MANY, "o-")):
                done = [count for count in counts if (operation, count, name) in lines]
                axes.plot(done, [runs.median(lines[operation, count, name]) for count in done],
                          style, color=f"C{at}", label=f"{operation}, {name}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("ranks")
        axes.set_ylabel("us")

    return Figure(
        "Figures 5, 6, 18", f"collectives of 4 MiB a rank on hosts drawn at random, 400 Gb/s fat "
        f"tree, {options.seeds} seeds; completion in us",
        ["", "ranks", *TRANSPORTS, "one path / 256", "RoCE / 256"], rows,
        "16 ranks, over SRD: all-reduce up to 1.37 (small) and 1.27 (large) times, all-to-all 2.93 "
        "and 3.27; on one switch as ConnectX-7.", draw=draw)


def sizes(runs, options):
    """16 ranks, buffers as in the figures, in a fat tree and on one switch."""
    all_sizes = [MIB >> 4, MIB, 16 * MIB] if options.quick else \
        [MIB >> 6, MIB >> 4, MIB >> 2, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
    nets = {"fat tree": {}, "one switch": {"topology": "leaf-spine", "hosts-per-leaf": 16}}
    kinds = ("all-reduce, ring", "all-to-all, all at once")
    lines = {(net, kind, size, name): placed(options, kind, 16, size,
                                             {**nets[net], **TRANSPORTS[name]})
             for net in nets for kind in kinds for size in all_sizes for name in FEW}
    runs.make(lines.values())

    def rate(line, kind, size):
        """Bus bandwidth in GB/s, as nccl-tests count."""
        moved = size * 15 / 16 * (2 if "reduce" in kind else 1)
        return spread([moved / us / 1e3 for us in runs.values(line)], 1)

    rows = []
    for net in nets:
        for kind in kinds:
            for size in all_sizes:
                each = [lines[net, kind, size, name] for name in FEW]
                rows.append([net, kind, f"{size >> 10} KiB",
                             *(rate(line, kind, size) for line in each),
                             gain(runs, each[1], each[2]), gain(runs, each[0], each[2])])

    def draw(axes):
        for at, kind in enumerate(kinds):
            for name, style in zip(FEW, ("^--", "s:", "o-")):
                line = [runs.median(lines["fat tree", kind, size, name]) for size in all_sizes]
                factor = 15 / 16 * (2 if "reduce" in kind else 1) / 1e3
                axes.plot([size / MIB for size in all_sizes],
                          [size * factor / us for size, us in zip(all_sizes, line)],
                          style, color=f"C{at}", label=f"{kind}, {name}")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("MiB")
        axes.set_ylabel("bus bandwidth, GB/s")

    return Figure(
        "Figures 5, 6", f"16 ranks on hosts drawn at random, 400 Gb/s, {options.seeds} seeds; bus "
        "bandwidth in GB/s",
        ["network", "", "buffer", *FEW, "one path / 256", "RoCE / 256"], rows,
        "on one switch as ConnectX-7 (48.9 and 48.5 GB/s at most); across racks the gains over SRD "
        "above.", draw=draw)


def paths(runs, options):
    """All-to-all and all-reduces of 64 ranks by the number of paths."""
    size = 4 * MIB
    counts = (1, 4, 32, 256) if options.quick else (1, 2, 4, 8, 16, 32, 64, 128, 256)
    kinds = ("all-to-all, all at once", "all-reduce, halving", "all-reduce, ring")
    lines = {(kind, count): placed(options, kind, 64, size, {"paths": count})
             for kind in kinds for count in counts}
    runs.make(lines.values())
    rows = [[count, *(cell for kind in kinds for cell in (
        runs.spread(lines[kind, count], digits=0), gain(runs, lines[kind, 1], lines[kind, count])))]
        for count in counts]

    def draw(axes):
        for kind in kinds:
            axes.plot(counts, [runs.median(lines[kind, count]) for count in counts], "o-",
                      label=kind)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("paths")
        axes.set_ylabel("us")

    heads = [head for kind in kinds for head in (f"{kind}, us", "gain over 1")]
    return Figure(
        "Figure 19", f"number of paths; 64 ranks on hosts drawn at random, 4 MiB each, "
        f"{options.seeds} seeds", ["paths", *heads], rows,
        "more paths, less congestion (a graph without numbers).", draw=draw)


def live(runs, options):
    """Operations by the state machine of live ranks, against flows, which all other figures have:
    ranks that copy and combine as fast as GPUs, and as one core does."""
    count = 16
    # Slots as long as the messages into which live ranks cut a ring's pieces.
    kinds = {
        "all-reduce, ring": ("ring-allreduce", 16 * MIB, {}),
        "all-reduce, halving": ("halving-allreduce", 16 * MIB, {}),
        "all-reduce, two trees": ("tree-allreduce", 16 * MIB, {}),
        "all-to-all, pairwise": ("pairwise-alltoall", 4 * MIB, {}),
        "all-to-all, all at once": ("direct-alltoall", 4 * MIB, {}),
    }
    networks = {MANY: {}, ONE: {"paths": 1}, "0.1 % loss": {"loss": "0.001"},
                "1 % loss": {"loss": "0.01"}}
    quick = {"copy": "100T", "combine": "100T"}
    ways = {
        "flows": {"collectives": "flows"},
        "ranks": quick,
        "ranks, 4 slots": {**quick, "slots": 4},
        "ranks, 8 calls": {**quick, "rounds": 8},
        "ranks of CPUs": {},
    }
    lines = {(kind, network, way): (workload, {"nodes": count, "bytes": size, **SLOT, **more,
                                               "placement": "random", **networks[network],
                                               **ways[way]})
             for kind, (workload, size, more) in kinds.items() for network in networks
             for way in ways}
    runs.make(lines.values())

    def us(line, way):
        calls = ways[way].get("rounds", 1)
        return runs.spread(line, scale=1 / calls, digits=0)

    rows = [[kind, f"{size // MIB} MiB", network,
             *(us(lines[kind, network, way], way) for way in ways)]
            for kind, (_, size, _) in kinds.items() for network in networks]
    return Figure(
        "State machine", f"{count} ranks on hosts drawn at random, 400 Gb/s, {options.seeds} "
        "seeds; us for a call. Ranks: that copy and combine at 100 Tb/s; with 4 slots instead of "
        "16; the mean of 8 calls; at 80 and 64 Gb/s, as a core does",
        ["operation", "buffer", "network", *ways], rows, "no such figure.")


def training(runs, options):
    """A step of data-parallel training of 16 GPUs, whose all-reduces overlap its computing."""
    models = ("resnet50",) if options.quick else ("resnet50", "gpt2")
    names = FEW if options.quick else [*FEW[:2], "256 paths, p2c", FEW[2]]
    # Links of 100 Gb/s as in the paper, and of 400.
    cells = [(model, link) for model in models for link in ("100G", "400G")
             if (model, link) != ("gpt2", "400G")]
    lines = {(model, link, name): traced(
        options, f"ddp-{model}", lambda seed, model=model: traces.ddp(model, seed=seed),
        {"link": link, **TRANSPORTS[name]}) for model, link in cells for name in names}
    runs.make(lines.values())
    rows = []
    for model, link in cells:
        each = {name: lines[model, link, name] for name in names}
        rows.append([model, link, traces.MODELS[model][2],
                     *(runs.spread(line, scale=1e-3, digits=1) for line in each.values()),
                     gain(runs, each[ONE], each[MANY]),
                     gain(runs, each["RoCE, 1 queue pair"], each[MANY])])

    def draw(axes):
        bars(axes, [f"{model}, {link}" for model, link in cells],
             {name: [runs.median(lines[*cell, name]) / 1e3 for cell in cells] for name in names})
        axes.set_ylabel("ms a step")

    return Figure(
        "Figure 8a", f"a step of training, 16 ranks on hosts drawn at random, {options.seeds} "
        "seeds; ms", ["model", "link", "computing", *names, "one path / 256", "RoCE / 256"], rows,
        "an epoch of ResNet 1.07 to 1.11 times faster than over SRD, which has many paths itself.",
        draw=draw)


def experts(runs, options):
    """Layers of a mixture of experts on 32 ranks: few tokens a rank as in decoding, or many."""
    cells = [("decoding", 128, 2, skew) for skew in ((0,) if options.quick else (0, 100))]
    cells += [] if options.quick else [("prefilling", 512, 1, 0), ("16 KiB tokens", 128, 1, 0)]
    names = FEW

    def make(seed, cell):
        kind, tokens, layers, skew = cell
        token = 16384 if "16" in kind else 7168
        return traces.moe(tokens=tokens, token=token, layers=layers, skew=skew, seed=seed)

    lines = {(cell, name): traced(
        options, "moe-" + "-".join(str(word).replace(" ", "-") for word in cell),
        lambda seed, cell=cell: make(seed, cell), {"link": "100G", **TRANSPORTS[name]})
        for cell in cells for name in names}
    runs.make(lines.values())
    rows = []
    for cell in cells:
        kind, tokens, layers, skew = cell
        each = {name: lines[cell, name] for name in names}
        rows.append([kind, tokens, layers, f"{skew / 10:.0f} %",
                     *(runs.spread(line, scale=1e-3, digits=2) for line in each.values()),
                     gain(runs, each[ONE], each[MANY]),
                     gain(runs, each["RoCE, 1 queue pair"], each[MANY])])

    def draw(axes):
        bars(axes, [f"{kind}, skew {skew / 10:.0f} %" for kind, _, _, skew in cells],
             {name: [runs.median(lines[cell, name]) / 1e3 for cell in cells] for name in names})
        axes.set_ylabel("ms")

    return Figure(
        "Figure 8b", f"a mixture of 256 experts on 32 ranks, 8 for each token, links of 100 Gb/s, "
        f"{options.seeds} seeds; ms", ["", "tokens", "layers", "by Zipf's law", *names,
                                       "one path / 256", "RoCE / 256"], rows,
        "prefilling 1.13 and decoding 1.42 times faster than over SRD.", draw=draw)


def bars(axes, names, series):
    """Groups of bars: for each name one of every series."""
    width = 0.8 / len(series)
    for at, (label, values) in enumerate(series.items()):
        axes.bar([place + at * width for place in range(len(names))], values, width, label=label)
    middle = 0.4 - width / 2
    axes.set_xticks([place + middle for place in range(len(names))], names, fontsize=6, rotation=12)
