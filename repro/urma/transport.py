"""§11: loss and congestion."""

from .rows import READS, Item, Row, of


def loss():
    known = {
        "ub-ldst": [1.996, 1.9958, 1.9862, 1.9416, 1.8854],
        "ub-urma": [1.3193, 1.3191, 1.3120, 1.2790, 1.2377],
        "roce-bf": [0.5757, 0.5750, 0.5497, 0.4538, 0.3684],
        "roce-dma": [0.4470, 0.4466, 0.4312, 0.3698, 0.3111],
    }
    rates = [0, 0.001, 0.01, 0.05, 0.1]
    rows = []
    for stack, figures in known.items():
        for at, figure in zip(rates, figures):
            options = of(stack, verb=READS[stack], loss=at, ops=4000)
            rows.append(Row(f"{stack}, 1 in flight", at, options, None, None, figure, "mops"))
    for stack in [*known, "roce-irn"]:
        for at in rates:
            options = of(stack, verb="write" if stack != "ub-ldst" else "load", loss=at,
                         concurrency=32, ops=6000)
            rows.append(Row(f"{stack}, 32 in flight", at, options, metric="mops"))
    for share, series in [(1, "coherent, retrained"), (0, "coherent, repeated by the link")]:
        for at in [0, 0.0001, 0.001, 0.01]:
            options = of("coherent", verb="load", workload="ptr-chase", loss=at, ops=4000)
            options["set"] = f"retrain_share={share}"
            says = {0: 2.0, 0.0001: 1.67, 0.001: 0.667, 0.01: 0.0952}[at] if share else None
            paper = {0: 2.0, 0.01: 0.01}.get(at) if share else None
            rows.append(Row(series, at, options, None, paper, says, "mops"))
    for stack, verb in [("ub-urma", "write"), ("ub-urma", "read"), ("roce-dma", "write"),
                        ("roce-dma", "read")]:
        for role in ["requests", "responses", "acks"]:
            if (verb, role) == ("write", "responses"):
                continue
            options = of(stack, verb=verb, loss=0.05, loss_of=role, concurrency=32, ops=6000)
            rows.append(Row(f"{stack} {verb}, 5 %, 32 in flight", f"only {role}", options,
                            metric="mops"))
    drop = lambda series: lambda value: 100 * (1 - value(series, 0.05) / value(series, 0))
    for series, paper in [("ub-urma", 3), ("roce-dma", 17)]:
        for flight in [1, 32]:
            rows.append(Row(f"{series}, lost at 5 %, in percent", f"{flight} in flight", None, None,
                            paper if flight == 1 else None,
                            {"ub-urma": 3.1, "roce-dma": 17.3}[series] if flight == 1 else None,
                            derive=drop(f"{series}, {flight} in flight")))
    rows.append(Row("roce-irn, lost at 5 %, in percent", "32 in flight",
                    derive=drop("roce-irn, 32 in flight")))
    yield Item("Figure 44", "11.1", "packets are lost: requests, answers and acknowledgements",
               "Mops", rows,
               "The paper resends at once what was lost and charges RoCE for 32 packets with one in "
               "flight; executed, with nothing behind a lost packet only time reveals it: a load is "
               "repeated after about 12 us, UB probes a silent channel, RoCE waits for its time-out "
               "(100 us, assumed). With 32 in flight UB hides it behind the core that "
               "posts. roce-irn repairs what was lost alone, and a lost repair costs the same time-out; "
               "answers to READs it takes in order.",
               "loss")


def congestion():
    rows = []
    for policy, paper, artefact in [("caqm", 96, 95.98), ("dcqcn", 62.5, 62.52),
                                    ("swift", None, None)]:
        command = ["sim", "--topology", "leaf-spine", "--nodes", "16", "--hosts-per-leaf", "16",
                   "--senders", "8", "--bytes", "8M", "--link", "100G", "--latency", "500ns",
                   "--mtu", "4K", "--paths", "1", "--policy", f"cc={policy}", "--json", "incast"]
        rows.append(Row(policy, "8 to 1", None, None, paper, artefact, "goodput_gbps",
                        command=command))
    yield Item("Figure 45", "11.2", "congestion control: use of a shared link", "%", rows,
               "The paper's traces have no queue, no round trip and no other flow; here eight "
               "senders meet at a switch of the packet simulator, with the engine's own policies (DCQCN's "
               "figure is drops and time-outs at the simulator's default buffer, and C-AQM's run drops "
               "1,509 packets and has 8 time-outs). Ours is Gb/s of a link of 100 Gb/s in an incast that "
               "drops, and not the use of a link without loss that the paper has.")


def fan_in():
    rows = []
    kinds = [("ub-urma", "fixed:16M"), ("ub-urma", "dcqcn"), ("ub-urma", "swift"),
             ("roce-dma", "fixed:16M"), ("roce-dma", "dcqcn"), ("roce-irn", "dcqcn")]
    for stack, law in kinds:
        for senders in [2, 4, 8, 16]:
            options = of(stack, verb="write", workload="incast", hosts=senders + 1, payload=16384,
                         concurrency=8, ops=4000, policy=f"cc={law}", set="link_gbps=40,rto_us=2000")
            name = f"{stack}, {law.split(':')[0]}"
            rows.append(Row(f"{name}: Gb/s of 40", senders, options, metric="gbps"))
            rows.append(Row(f"{name}: packets dropped", senders, options, metric="dropped"))
    yield Item("Fan-in", "11.2", "hosts that write to one, through a switch's port", "", rows,
               "The paper has no such experiment. Links of 40 Gb/s, so that the port and not a NIC is "
               "the bottleneck; its buffer holds 400 KB, of which a fifth may wait unmarked; time-outs "
               "of 2 ms, longer than the queue. A fixed "
               "window stands for no congestion control; RoCE repeats its losses by go-back-N.",
               "senders")


def sim(*words):
    """A run of the packet simulator; the workload is the last word."""
    return ["sim", "--json", "--link", "100G", *map(str, words)]


# Fairway is UB's transport here: it places and repairs packet by packet.
FABRIC = [("UB", ["--policy", "cc=fixed:128K"]),
          ("RoCE, go-back-N", ["--stack", "roce", "--policy", "cc=fixed:1G"]),
          ("RoCE, IRN", ["--stack", "roce-irn", "--policy", "cc=fixed:128K"])]


def loss_in_a_network():
    rows = []
    for series, settings in FABRIC:
        for at in [0, 0.0001, 0.001, 0.01, 0.05]:
            command = sim(*settings, "--nodes", 16, "--bytes", "8M", "--ecn", "off", "--queue", "64M",
                          "--loss", at, "--timeout-min", "1ms", "permutation")
            rows.append(Row(f"{series}: Gb/s of each of 16 hosts", at, metric="goodput_gbps",
                            scale=1 / 16, command=command))
            rows.append(Row(f"{series}: packets sent again, in percent", at, metric="resent",
                            scale=100 / (16 * 2048), command=command))
    yield Item("Figure 44, in a network", "11.1", "any packet is lost, acknowledgements as well", "",
               rows,
               "The paper has no network. A fat tree of 16 hosts, 100 Gb/s, a permutation of 8 MB: until "
               "the last is done, so one that waits for a time-out "
               "sets the figure: 1 ms, as queues may hold that much.")


def fan_in_a_network():
    rows = []
    pauses = ["--pfc", "200K:160K"]
    kinds = [("C-AQM, hints", ["--policy", "cc=caqm", "--hint", "caqm", "--ecn", "off"]),
             ("C-AQM, marks", ["--policy", "cc=caqm", "--hint", "off"]),
             ("DCQCN, over Fairway", ["--policy", "cc=dcqcn:line=100Gbps"]),
             ("RoCE, DCQCN", ["--stack", "roce"]),
             ("RoCE, DCQCN, pauses", ["--stack", "roce", *pauses]),
             ("RoCE, no rates, pauses", ["--stack", "roce", "--policy", "cc=fixed:1G", *pauses])]
    for series, settings in kinds:
        for senders in [2, 8, 31]:
            command = sim(*settings, "--nodes", 32, "--senders", senders, "--bytes", "8M", "incast")
            for what, key, scale in [("Gb/s of 100", "goodput_gbps", 1), ("dropped", "drops", 1),
                                     ("longest queue, KB", "queue_bytes_max", 1e-3),
                                     ("pauses", "pauses", 1)]:
                if what != "pauses" or "--pfc" in settings:
                    rows.append(Row(f"{series}: {what}", senders, metric=key, scale=scale,
                                    command=command))
    yield Item("Figure 45, fan-in in a network", "11.2", "hosts that send 8 MB each to one", "", rows,
               "Three tiers, 100 Gb/s, real queues of a bandwidth-delay product, marked from a fifth on; with "
               "pauses they have no end. RoCE's increases are those published, times 2.5 for the link's rate.",
               "senders")


def items():
    for part in [loss, loss_in_a_network, congestion, fan_in, fan_in_a_network]:
        yield from part()
