"""§8: the load/store path."""

from .rows import READS, STACKS, Item, Row, of


def first(stack, figure):
    """What v1 of the paper says: its RoCE had no 50 ns of sequencing."""
    return figure if figure is None or stack.startswith("ub") else figure - 50


def headline():
    artefact = {
        "ub-ldst": {"load": 500, "write": 750, "send": 804, "fadd": 750, "cas": 750},
        "ub-urma": {"read": 757, "write": 750, "send": 804, "fadd": 750, "cas": 750},
        "roce-bf": {"read": 1736, "write": 1227, "send": 1281, "fadd": 1477, "cas": 1477},
        "roce-dma": {"read": 2236, "write": 1727, "send": 1781, "fadd": 1977, "cas": 1977},
    }
    rows = []
    for stack, verbs in artefact.items():
        for verb, figure in verbs.items():
            payload = 8 if verb in ("fadd", "cas") else 64
            options = of(stack, verb=verb, payload=payload, ops=500)
            rows.append(Row(stack, verb, options, {"ops": 5}, first(stack, figure), figure,
                            exact=True))
    options = of("ub-ldst", verb="store", ops=500)
    rows.append(Row("ub-ldst", "store", options, None, None, None))
    for name, two, paper, artefact in [("DMA READ / LOAD", "roce-dma", 4.37, 4.472),
                                       ("BF READ / LOAD", "roce-bf", 3.37, 3.472),
                                       ("UB READ / LOAD", "ub-urma", 1.51, 1.514)]:
        for kind in ["oracle", "executed"]:
            divide = lambda value, two=two, kind=kind: \
                value(two, "read", kind) / value("ub-ldst", "load", kind)
            rows.append(Row(name, kind, None, None, paper, artefact, derive=divide))
    yield Item("Table 6, Figures 19, 23", "8.1", "one operation of 64 B at a time (atomics: 8 B)",
               "ns", rows,
               "The paper has NIC reception cost what transmission does, where its bench measured "
               "4 cycles; ours charges those, DRAM rows and real headers. A STORE was never run "
               "there: its generator makes WRITEs of them.")


def concurrency():
    flat = {"ub-ldst": 2.0, "ub-urma": 1.32, "roce-bf": 0.576, "roce-dma": 0.447}
    claims = {("ub-ldst", 1): 2.5, ("roce-dma", 64): 0.74}
    rows = []
    for stack, figure in flat.items():
        for at in [1, 4, 16, 64, 256]:
            options = of(stack, verb=READS[stack], concurrency=at, ops=5000)
            known = figure if at <= 64 else None
            rows.append(Row(stack, at, options, None, claims.get((stack, at)), known, "mops"))
    yield Item("Figure 20", "8.1", "operations in flight", "Mops", rows,
               "The paper's simulator carries one operation at a time, so its own data are flat "
               "where its text says linear; executed, loads end at 16 miss registers, work "
               "requests at the core that posts them.", "in flight")


def link():
    known = {
        "ub-ldst": [400, 500, 700, 1300], "ub-urma": [657, 757, 957, 1557],
        "roce-bf": [1636, 1736, 1936, 2536], "roce-dma": [2136, 2236, 2436, 3036],
    }
    rows = []
    for stack, figures in known.items():
        for at, figure in zip([50, 100, 200, 500], figures):
            options = of(stack, verb=READS[stack], link_ns=at, workload="ptr-chase", ops=500)
            rows.append(Row(stack, at, options, {"ops": 5}, None, figure, exact=True))
    graph = {
        "ub-ldst": [456.8, 555.8, 753.8, 1347.8], "ub-urma": [653.5, 753.5, 953.5, 1553.5],
        "roce-bf": [1506.5, 1606.5, 1806.5, 2406.5], "roce-dma": [2006.5, 2106.5, 2306.5, 2906.5],
    }
    for stack, figures in graph.items():
        for at, figure in zip([50, 100, 200, 500], figures):
            options = of(stack, link_ns=at, workload="graph-bfs", keys=1000, ops=2000)
            rows.append(Row(f"{stack}, graph-bfs", at, options, None, None, figure))
    for at, paper in [(100, 3.4), (500, 2.5)]:
        rows.append(Row("DMA / load/store", at, None, None, paper, None,
                        derive=lambda value, at=at: value("roce-dma", at) / value("ub-ldst", at)))
    yield Item("Figure 21", "8.1", "the wire gets longer", "ns", rows,
               "The text's ratios (3.4 to 2.5, a growing gap) are of an earlier model: in its own "
               "data the gap is 1736 ns at every delay, and the ratio 4.5 to 2.3. Its graph_bfs is three "
               "reads to a write at random addresses; ours searches a graph, and checks the distances.",
               "link, ns")


PHASES = [
    ("CPU cache lookup", 0, 0, 0), ("verb library, post", 0, 50, 50),
    ("work request construction", 0, 30, 30), ("doorbell", 30, 30, 150),
    ("work request fetch", 0, 0, 500), ("sequencing", 0, 0, 0),
    ("initiator NIC, transmit", 25, 78, 28), ("wire, out", 100, 100, 100),
    ("target NIC, receive", 25, 78, 28), ("target NIC to memory", 30, 30, 500),
    ("target DRAM", 30, 30, 30), ("target NIC, transmit", 25, 78, 28), ("wire, back", 100, 100, 100),
    ("initiator NIC, receive", 25, 78, 28), ("response into memory", 30, 30, 250),
    ("completion entry", 0, 0, 250), ("noticing the completion", 0, 5, 70),
    ("verb library, poll", 0, 30, 30),
]


def budget():
    rows = []
    totals = {"ub-ldst": (420, 500), "ub-urma": (745, 757), "roce-dma": (2172, 2236)}
    for index, stack in enumerate(["ub-ldst", "ub-urma", "roce-dma"]):
        options = of(stack, verb=READS[stack], ops=300)
        for phase in PHASES:
            figure = phase[1 + index]
            rows.append(Row(stack, phase[0], options, {}, figure, None, f"phase:{phase[0]}"))
        rows.append(Row(stack, "total", options, {}, *totals[stack]))
    yield Item("Figure 22, Table 7", "8.1", "where a round trip of 64 B goes", "ns", rows,
               "The gap between the paper's sum (420) and its run (500) is no scheduling overhead: "
               "70 ns are the cache lookup that its simulator charges and its table leaves out, 10 "
               "are rounding and serialisation.")


def locality():
    rows = []
    for cache, figures in [("wb", [500, 457.6, 335.3, 185.6]), ("wt", [500, 457.6, 335.3, 185.6]),
                           ("uc", [500, 500, 500, 500])]:
        for at, figure in zip([0, 25, 50, 80], figures):
            options = of("ub-ldst", verb="load", workload="ptr-chase", cache=cache, locality=at,
                         ops=200)
            paper = {0: 470, 80: 175}.get(at) if cache == "wb" else None
            rows.append(Row(cache, at, options, {}, paper, figure))
    yield Item("Figure 24", "8.2", "cache locality of a pointer chase", "ns", rows,
               "The text's 470 and 175 are of an earlier model; hops are drawn by another "
               "generator here, so shares between 0 and 100 % agree only on average.", "locality, %",
               False)


def paging():
    stacks = ["ub-ldst", "infiniswap", "fastswap"]
    rows = []

    def add(series, at, stack, artefact, paper=None, **more):
        options = of(stack, verb="load", **more)
        if stack == "ub-ldst":
            options["cache"] = "wb"
        rows.append(Row(series, at, options, None, paper, artefact))

    chase = dict(zip(stacks, [500, 6087, 1339.6]))
    for stack in stacks:
        add(f"a: chase, {stack}", "cold", stack, chase[stack], workload="ptr-chase", ops=2000)
    zipf = {"ub-ldst": [76, 236, 294], "infiniswap": [89, 835, 1906], "fastswap": [76, 466, 2040]}
    for stack, figures in zipf.items():
        for at, figure in zip([1 << 10, 1 << 16, 1 << 20], figures):
            add(f"b: Zipf, {stack}", at, stack, figure, figure if at == 1 << 16 else None,
                workload="zipf", keys=at, ops=5000)
    seq = {"ub-ldst": 500, "infiniswap": 164.0, "fastswap": 89.8}
    for stack, figure in seq.items():
        add(f"c: scan of 1 MB, {stack}", "dense", stack, figure, figure, workload="scan",
            keys=16384, ops=16384)
    for at in [4, 12]:
        options = of("ub-ldst", verb="load", workload="scan", keys=16384, ops=16384, cache="wb")
        options["set"] = f"prefetch_lines={at}"
        rows.append(Row("c: scan of 1 MB, ub-ldst", f"prefetch {at}", options))
    skew = {"ub-ldst": [460, 294, 81], "infiniswap": [1254, 973, 334], "fastswap": [533, 515, 275]}
    for stack, figures in skew.items():
        for at, figure in zip([0.5, 0.9, 1.3], figures):
            add(f"d: skew, {stack}", at, stack, figure, workload="zipf", keys=1 << 16, skew=at,
                ops=5000)
    for stack in stacks:
        add(f"e: dirty scan, {stack}", "1/10 stores", stack, None, workload="scan-dirty",
            keys=65536, ops=40000)
    yield Item("Figure 25", "8.2", "far memory: lines or pages", "ns", rows,
               "Keys are scrambled here, so popular ones do not share pages, which halves what "
               "paging gains; dirty pages go back before they come again; and with a stride "
               "prefetcher (panel c) loads overtake paging at its best case.")


def payload():
    sizes = [8, 64, 256, 1024, 4096, 16384, 65536]
    known = {
        ("ub-urma", "read"): [750, 757, 799, 962, 1621, 4251, 14776],
        ("roce-dma", "read"): [2227, 2236, 2276, 2441, 3098, 5730, 16253],
        ("ub-urma", "write"): [743, 750, 792, 955, 1614, 4244, 14769],
        ("roce-dma", "write"): [1718, 1727, 1767, 1932, 2589, 5221, 15744],
        ("ub-urma", "send"): [797, 804, 846, 1009, 1668, 4298, 14823],
        ("roce-dma", "send"): [1772, 1781, 1821, 1986, 2643, 5275, 15798],
    }
    rows = []
    for (stack, verb), figures in known.items():
        for at, figure in zip(sizes, figures):
            options = of(stack, verb=verb, payload=at, ops=200)
            paper = 1347 if (stack, verb, at) == ("roce-dma", "read", 8) else None
            rows.append(Row(f"{stack} {verb}", at, options, {"ops": 5}, paper, figure, exact=True))
    for at, figure in zip(sizes[1:], [500, 542, 707, 1364, 3996, 14519]):
        oracle = of("ub-ldst", verb="load", payload=at, ops=5)
        options = of("ub-ldst", verb="load", ops=200) if at == 64 else None
        rows.append(Row("ub-ldst load", at, options, oracle, None, figure, exact=True))
    yield Item("Figure 26", "8.2", "payloads", "ns", rows,
               "At 16 to 64 KiB the stacks are 1.1 to 1.4 times apart in the paper's own data, "
               "not within 5 %; it stores and forwards a message four times, where packets follow "
               "each other here; a load of more than 64 B is no instruction.", "payload, B")
    rows = []
    for stack, gap in [("ub-urma", 7), ("roce-bf", 509), ("roce-dma", 509)]:
        for kind in ["oracle", "executed"]:
            rows.append(Row(stack, kind, None, None, gap, gap,
                            derive=lambda value, stack=stack, kind=kind:
                            value(f"{stack} read", 64, kind) - value(f"{stack} write", 64, kind)))
        for verb in ["read", "write"]:
            options = of(stack, verb=verb, ops=200)
            rows.append(Row(f"{stack} {verb}", 64, options, {"ops": 5}))
    yield Item("Figure 29", "8.2", "READ minus WRITE of 64 B", "ns", rows,
               "PCIe's reads take longer than its writes; on a bus both are the same.")


def lock():
    rows = []
    known = {"ub-urma": {1: 750, 16: 12000, 64: 48000, 256: 192000},
             "roce-dma": {1: 1977, 16: 31632, 64: 190528, 256: 762112}}
    for stack in ["ub-urma", "roce-bf", "roce-dma"]:
        for at in [1, 4, 16, 64, 256]:
            options = of(stack, workload="cas-lock", concurrency=at, ops=300)
            figure = known.get(stack, {}).get(at)
            paper = {("ub-urma", 256): 192000, ("roce-dma", 256): 749000}.get((stack, at))
            rows.append(Row(stack, at, options, None, paper, figure, "acquire_mean_ns"))
    yield Item("Figure 27", "8.2", "K contenders for a lock: until one has it", "ns", rows,
               "In the paper K x one CAS, by one issuer, of a lock that is never released; here "
               "contenders race and back off, and the holder of the lock changes a counter (its sum "
               "proves exclusion), so the time grows with the holders before, and with retries.",
               "K")


def jitter():
    known = {"ub-ldst": (540, 695), "ub-urma": (797, 952), "roce-bf": (1954, 2628),
             "roce-dma": (2550, 3355)}
    paper = {"ub-ldst": (540, 695), "roce-dma": (2500, 3221)}
    rows = []
    for stack, (p50, p999) in known.items():
        options = of(stack, verb=READS[stack], jitter=0.2, workload="ptr-chase", ops=5000)
        says = paper.get(stack, (None, None))
        rows.append(Row(stack, "p50", options, {}, says[0], p50, "p50_ns"))
        rows.append(Row(stack, "p99.9", options, {}, says[1], p999, "p999_ns"))
    yield Item("Figure 28", "8.2", "tails under jitter of 0.2 on wire and DMA", "ns", rows,
               "The outcome is the construction's in both; another generator draws here.")


def throughput():
    rows = []
    for stack, paper, artefact in [("ub-urma", 150.36, 20.05), ("roce-dma", 53.62, 53.62)]:
        for jetties in [1, 32]:
            options = of(stack, verb="write", payload=8, jetties=jetties, concurrency=512, ops=8000,
                         set="roce_psn_ns=0,post_lib_ns=0,wqe_ns=0,mmio_hold_ns=0,poll_lib_ns=0,"
                         "cqe_poll_chip_ns=0,cqe_poll_pcie_ns=0")
            one = jetties == 1
            rows.append(Row(f"{stack}, NIC alone", f"{jetties} Jetties", options, None,
                            paper if one else None, artefact if one else None, "mops"))
        options = of(stack, verb="write", jetties=1, concurrency=256, ops=8000)
        rows.append(Row(f"{stack}, with its core", "1 Jetty", options, None, None, None, "mops"))
        for batch in [4, 16]:
            rows.append(Row(f"{stack}, with its core", f"{batch} to a doorbell",
                            {**options, "batch": batch}, metric="mops"))
    for name, at in [("NIC alone", "1 Jetties"), ("NIC alone", "32 Jetties"),
                     ("with its core", "1 Jetty")]:
        rows.append(Row(f"ratio, {name}", at, None, None, 2.80 if at == "1 Jetties" else None,
                        0.37 if at == "1 Jetties" else None,
                        derive=lambda value, name=name, at=at:
                        value(f"ub-urma, {name}", at) / value(f"roce-dma, {name}", at)))
    yield Item("§8.3 request rate", "8.3", "sustained requests", "Mops", rows,
               "The 2.80 times count 221 of 256 dropped requests as sent: what came out was 0.37 "
               "times RoCE's rate, one request per scan of 16 Jetties; executed, the slowest stage "
               "or the core that posts decides. Lists of work requests spare it calls and doorbells, "
               "in both stacks.")


def open_loop():
    known = {
        "ub-ldst": {0.2: 526, 1.0: 745, 1.8: 2698}, "ub-urma": {0.2: 820, 1.0: 1959},
        "roce-bf": {0.2: 2178, 0.5: 7588}, "roce-dma": {0.1: 2521, 0.3: 4443},
    }
    rows = []
    for stack, figures in known.items():
        for at in sorted({*figures, 1, 2, 4, 5, 6, 8, 16, 24}):
            options = of(stack, verb=READS[stack], rate=at, ops=8000)
            rows.append(Row(stack, at, options, None, None, figures.get(at)))
    yield Item("Figure 30", "8.3", "open loop: latency at a rate offered", "ns", rows,
               "The paper's server is the whole round trip, so its knee is one over the latency; "
               "executed it is where a resource is: miss registers for loads, the core that posts "
               "for the rest.", "Mops offered")


def goodput():
    rows = []
    for at, figure in [(1, 4.0), (4, 5.714), (16, 6.4), (64, 6.598), (256, 6.649)]:
        options = of("ub-urma", verb="write", concurrency=at, ops=max(at, 1) * 4)
        rows.append(Row("ub-urma, burst of N", at, options, None, 6.66 if at == 256 else None,
                        figure, "mops"))
    for at, figure in [(0, 51200), (50, 13.3), (100, 6.65), (500, 1.33), (1000, 0.665)]:
        options = of("ub-urma", verb="write", concurrency=256, link_ns=at, ops=4000)
        paper = 51000 if at == 0 else None
        rows.append(Row("ub-urma, link", at, options, None, paper, figure, "mops"))
    yield Item("Figure 31", "8.3", "WRITE goodput of two nodes", "Mops", rows,
               "The paper counts two completions per WRITE and has a link that sleeps for its delay "
               "on every flit; a pipelined link does not limit the rate.")
    rows = []
    for at, completion, paper in [("polled", "poll", 23.0), ("system call", "call", 2.0)]:
        options = of("ub-urma", verb="write", concurrency=32, link_ns=0, completion=completion,
                     ops=4000)
        rows.append(Row("ub-urma", at, options, None, paper, paper, "mops"))
    yield Item("Figure 32", "8.3", "WRITE rate under an operating system", "Mops", rows,
               "In the paper's full system the polled path is charged no pipeline at all (24 ns); "
               "here the verb library holds the core.")


def ycsb():
    known = {"ub-ldst": 4.97, "ub-urma": 1.325, "roce-bf": 0.673, "roce-dma": 0.5035}
    paper = {"ub-ldst": 4.6, "roce-dma": 0.50}
    rows = []
    for letter in "abcdef":
        for stack, figure in known.items():
            options = of(stack, workload=f"ycsb-{letter}", ops=5000)
            if stack == "ub-ldst" and letter != "e":
                rows.append(Row("ub-ldst, uncached", letter.upper(), {**options}, metric="mops"))
                options["cache"] = "wb"
            a = letter == "a"
            rows.append(Row(stack, letter.upper(), options, None, paper.get(stack) if a else None,
                            figure if a else None, "mops"))
    for at in [16, 256]:
        for stack in STACKS:
            options = of(stack, workload="ycsb-a", concurrency=at, jetties=min(at, 16), ops=8000)
            if stack == "ub-ldst":
                options["cache"] = "wb"
            rows.append(Row(stack, f"A, {at} in flight", options, metric="mops",
                            artefact=known[stack]))
    for name, series in [("cache on", "ub-ldst"), ("cache off", "ub-ldst, uncached")]:
        rows.append(Row("load/store over DMA, YCSB-A", name, None, None,
                        9.2 if name == "cache on" else None, 9.87 if name == "cache on" else None,
                        derive=lambda value, series=series:
                        value(series, "A") / value("roce-dma", "A")))
    yield Item("Figure 33", "8.3", "YCSB, one client, records compared", "Mops", rows,
               "The gain with the cache on is that of a private cache without invalidations, not the "
               "transport's; with the cache off the ratio is that of the latencies.")


def items():
    for part in [headline, concurrency, link, budget, locality, paging, payload, lock, jitter,
                 throughput, open_loop, goodput, ycsb]:
        yield from part()
