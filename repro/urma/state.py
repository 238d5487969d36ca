"""§7: bounded state."""

from .rows import READS, Item, Row, of

SIZES = [1, 8, 64, 256, 1024]


def sizes():
    ub = dict(zip(SIZES, [108, 864, 6912, 27648, 110592]))
    roce = dict(zip(SIZES, [544, 33024, 2099200, 33562624, 536903680]))
    rows = []
    for series, metric, known in [
        ("UB, paper's fields", "ub_paper_fields", {}),
        ("UB, paper's fields, padded", "ub_paper_padded", ub),
        ("RoCE, paper's fields", "roce_paper_fields", {}),
        ("RoCE, paper's fields, padded", "roce_paper_padded", roce),
        ("UB, our contexts", "ub_contexts", {}),
        ("RoCE, our contexts", "roce_contexts", {}),
        ("UB, every buffer", "ub_every_buffer", {}),
        ("RoCE, every buffer", "roce_every_buffer", {}),
        ("RoCE, every buffer, shared receives", "roce_shared_receives", {}),
    ]:
        for at in SIZES:
            command = ["nic", "--state", "--json", "--jetties", str(at), "--connections", str(at)]
            rows.append(Row(series, at, None, None, known.get(at), known.get(at), metric,
                            command=command))
    ratio = lambda one, two: lambda value: value(one, 1024) / value(two, 1024)
    for series, one, two, paper in [
        ("ratio, padded", "RoCE, paper's fields, padded", "UB, paper's fields, padded", 4855),
        ("ratio, fields", "RoCE, paper's fields", "UB, paper's fields", None),
        ("ratio, our contexts", "RoCE, our contexts", "UB, our contexts", None),
        ("ratio, every buffer", "RoCE, every buffer", "UB, every buffer", None),
        ("ratio, every buffer, shared", "RoCE, every buffer, shared receives",
         "UB, every buffer", None),
    ]:
        rows.append(Row(series, 1024, paper=paper, artefact=paper, derive=ratio(one, two)))
    yield Item("Tables 4, 5, Figure 13", "7.1", "state of a NIC, N applications and N hosts",
               "bytes", rows,
               "The paper counts UB's fields without their queues and RoCE's 512 B with 256 B of "
               "explicit padding. 'Our contexts' are not of one rule either: UB's three structures of "
               "the paper's size against RoCE's whole queue pair; with whole channels and Jetties the "
               "ratio is about 630. With every buffer (16 operations and receives an endpoint) it is "
               "the one in the last rows.", "N")


def spill():
    steps = {"ub-ldst": (500, 700, 1024), "ub-urma": (757, 957, 1024),
             "roce-bf": (1736, 2736, 23), "roce-dma": (2236, 3236, 23)}
    rows = []
    for stack, (fits, spilled, limit) in steps.items():
        for at in [1, 4, 16, 22, 23, 32, 64, 128]:
            options = of(stack, verb=READS[stack], jetties=at, connections=at,
                         ops=max(2000, 2 * at * at))
            figure = spilled if at >= limit else fits
            rows.append(Row(stack, at, options, {"ops": 5}, figure - 50 * stack.startswith("roce"),
                            figure, exact=True))
            popular = {**options, "popularity": 0.99, "ops": 4000}
            rows.append(Row(f"{stack}, Zipf 0.99", at, popular))
        for at in [1024, 4096]:
            options = of(stack, verb=READS[stack], jetties=at, connections=at)
            figure = spilled if at >= limit else fits
            rows.append(Row(stack, at, None, {**options, "ops": 5}, None, figure, exact=True))
    yield Item("Figure 14", "7.2", "contexts spill from SRAM: n Jetties and n hosts", "ns", rows,
               "The step is what LRU does to connections that take turns; with popular and less "
               "popular ones it is a curve, and costs a third of that at n = 64.", "n")


def fanout():
    rows = []
    ks = [1, 2, 8, 32, 128, 512, 1024]
    for at in ks:
        dma = 1781 if at == 1 else 1981 if at <= 512 else 2981
        options = of("ub-urma", verb="send", remote_jetties=at)
        rows.append(Row("ub-urma, published", at, None, {**options, "ops": 5}, 804, 804,
                        exact=True))
        options = of("roce-dma", verb="send", remote_jetties=at)
        rows.append(Row("roce-dma, published", at, None, {**options, "ops": 5}, dma - 50 * (at == 1),
                        dma, exact=True))
    ways = [("ub-urma, group", of("ub-urma", dispatch="turn"), 32),
            ("ub-urma, direct", of("ub-urma", dispatch="direct"), 512),
            ("ub-urma, CPU", of("ub-urma", dispatch="cpu"), 512),
            ("roce-dma, direct", of("roce-dma", dispatch="direct"), 512),
            ("roce-dma, CPU", of("roce-dma", dispatch="cpu"), 512),
            ("roce-dma, CPU, shared receives", of("roce-dma", dispatch="cpu", srq=True), 512)]
    for series, way, most in ways:
        for at in [k for k in ks if k <= most]:
            options = {**way, "workload": "fanout", "verb": "send", "remote-jetties": at,
                       "ops": 3000}
            rows.append(Row(series, at, options, metric="handled_mean_ns"))
    yield Item("Figure 15", "7.3", "a SEND to one of K members, until the member has handled it",
               "ns", rows,
               "Executed, the dispatcher is a core that messages queue for, and a sender does not "
               "wait for it; RoCE's queue pairs reach members directly as UB's Jetties do, so the "
               "200 ns are the price of one address for all, which a Jetty group does not pay.",
               "K")
    rows = []
    for series, way in [("ub-urma, group by turn", of("ub-urma", dispatch="turn")),
                        ("ub-urma, group by depth", of("ub-urma", dispatch="depth")),
                        ("ub-urma, group by hint", of("ub-urma", dispatch="hint")),
                        ("ub-urma, CPU", of("ub-urma", dispatch="cpu")),
                        ("roce-dma, direct", of("roce-dma", dispatch="direct")),
                        ("roce-dma, CPU", of("roce-dma", dispatch="cpu")),
                        ("roce-dma, CPU, shared receives",
                         of("roce-dma", dispatch="cpu", srq=True))]:
        options = {**way, "workload": "fanout", "verb": "send", "remote-jetties": 8, "jetties": 8,
                   "concurrency": 64, "ops": 6000, "set": "serve_ns=1000,serve_spread=1"}
        rows.append(Row(series, "rate, Mops", options, metric="handled_mops"))
        rows.append(Row(series, "p99, ns", options, metric="handled_p99_ns"))
    yield Item("Figure 15, loaded", "7.3", "8 members of 1 us (exponential), 64 SENDs in flight",
               "", rows, "Not in the paper: a software dispatcher saturates at its 300 ns a message "
               "(235 over UB); where all members are busy all the time, the place that chooses the "
               "member hardly matters otherwise.")


def sharing():
    rows = []
    for stack, base in [("ub-ldst", 500), ("ub-urma", 757), ("roce-dma", 2236)]:
        for at in [1, 4, 16, 64, 256, 1024]:
            figure = base if stack == "roce-dma" else base + 5 * (at - 1)
            oracle = of(stack, verb=READS[stack], jetties=at, ops=5) if stack != "roce-dma" else \
                of(stack, verb="read", ops=5)
            rows.append(Row(stack, at, None, oracle, None, figure, exact=True))
            if at <= 256:
                options = of(stack, verb=READS[stack], jetties=at, concurrency=at, ops=4000)
                rows.append(Row(f"{stack}, K in flight", at, options))
    yield Item("Figure 16", "7.4", "K Jetties share a TP channel", "ns", rows,
               "The paper adds (K-1) x 5 ns to every operation, whatever else is under way; "
               "executed, the 5 ns are how long the PSN allocator is taken, and K Jetties queue "
               "for the NIC's slowest stage first.", "K")


def mesh():
    table = {2: (447, 773, 2199), 4: (497, 823, 2249), 8: (597, 923, 2349), 16: (797, 1123, 2549),
             32: (1197, 1523, 3949), 64: (1997, 2323, 4749)}
    rows = []
    for at, figures in table.items():
        for stack, figure in zip(["ub-ldst", "ub-urma", "roce-dma"], figures):
            verb = READS[stack]
            options = of(stack, verb=verb, hosts=at, ops=at * 100) if at > 2 else \
                of(stack, verb=verb, ops=200)
            rows.append(Row(stack, at, options if at <= 32 else None, None, figure, figure))
    yield Item("Figure 17", "7.5", "all-to-all among N hosts", "ns", rows,
               "The paper adds 25 ns of 'wire share' for every host, queue or not; here packets "
               "meet at ports, and with one operation in flight per host hardly ever do.", "N")


def setup():
    rows = []
    for at, ub, roce in [(1, 505.1, 520.1), (16, 505.1, 4160.1), (64, 1020.1, 66560.1),
                         (256, 4080.1, 1064960.1), (1024, 16320.1, 17039360.1)]:
        for stack, figure in [("ub-urma", ub), ("roce-dma", roce)]:
            options = of(stack, workload="setup", jetties=at, connections=at)
            rows.append(Row(stack, at, options if at <= 256 else None, {} if at <= 256 else options,
                            figure, figure, "setup_us", exact=True))
    for at in [16, 64, 256]:
        base = of("ub-urma", workload="setup", jetties=at, connections=at)
        rows.append(Row("ub-urma, handles requested together", at,
                        {**base, "set": f"handles_per_message={at}"}, metric="setup_us"))
        library = f"handles_per_message={at},import_calls=0"
        rows.append(Row("ub-urma, and imports in the library", at, {**base, "set": library},
                        metric="setup_us"))
    rows.append(Row("ratio at 256", "published", paper=1044, artefact=1044,
                    derive=lambda value: value("roce-dma", 256, "oracle")
                    / value("ub-urma", 256, "oracle")))
    rows.append(Row("ratio at 256", "executed", paper=1044,
                    derive=lambda value: value("roce-dma", 256) / value("ub-urma", 256)))
    yield Item("Figure 18", "7.5", "set-up, until N applications can use N hosts", "us", rows,
               "The paper leaves out that an application has to import every Jetty and segment, "
               "N x N of each; with them, and RoCE's messages not waiting 500 us each but for the "
               "wire and an interrupt, the ratio is the last row's (261 at N = 256 in the paper, "
               "1044 at 1024).", "N")


def tenants():
    rows = []
    known = {1: 487, 256: 483}
    for at in [1, 8, 64, 256]:
        options = of("ub-urma", verb="write", jetties=at, concurrency=at, link_ns=0, ops=16 * at,
                     completion="call")
        rows.append(Row("ub-urma, system call", at, options, None, known.get(at), known.get(at)))
    yield Item("§7.6", "7.6", "tenants that post 16 WRITEs each", "ns", rows,
               "The paper's full-system runs take tenants one after the other and charge no "
               "pipeline; here they post at once, and what grows is the queue for the NIC.",
               "tenants")


def items():
    for part in [sizes, spill, fanout, sharing, mesh, setup, tenants]:
        yield from part()
