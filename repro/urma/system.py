"""§10: under an operating system. The paper boots Linux in gem5; the OS parts that it measured there
(455 ns for a system call, 1098 for an interrupt and wake-up) are constants here."""

from .rows import Item, Row, of

PATHS = [("a: polled", "poll", 24, 24), ("b: system call", "call", 484, 484),
         ("c: event", "interrupt", 1127, 1127)]


def write(**more):
    return of("ub-urma", **{"verb": "write", "payload": 8, "link_ns": 0, **more})


def paths():
    rows = [Row(name, 16, write(completion=kind, ops=16), None, paper, artefact)
            for name, kind, paper, artefact in PATHS]
    yield Item("Figures 38, 39", "10.2", "16 WRITEs, three ways to learn of their end, wire of 0 ns",
               "ns", rows,
               "The paper's 24 ns are less than its own pipeline (75 to 90 ns): no delay was "
               "charged; here library, bus and pipelines are.")
    rows = []
    for name, kind, figures in [("a: polled", "poll", [0, 20, 22, 18]),
                                ("b: system call", "call", [517, 486, 484, 484]),
                                ("c: event", "interrupt", [1153, 1112, 1132, 1133])]:
        for at, figure in zip([1, 4, 16, 64], figures):
            rows.append(Row(name, at, write(completion=kind, ops=at), None, figure, figure))
    yield Item("Figure 40", "10.2", "the same for N WRITEs", "ns", rows,
               "Flat in both: one is under way at a time. Here and in Figures 38 to 43 the paper's times "
               "of a system call (455 ns) and an interrupt (1,098 ns) are inputs.", "N")
    rows = []
    for name, kind, figure in [("a: polled", "poll", 20), ("b: system call", "call", 484)]:
        for at in [8, 64, 512, 4096]:
            rows.append(Row(name, at, write(completion=kind, payload=at, ops=16), None, figure,
                            figure))
    yield Item("Figure 42", "10.2", "the same for payloads", "ns", rows,
               "The paper's WRITEs carry no payload, so theirs is flat; bytes take time here.",
               "payload, B")
    rows = []
    for at, figure in [(0, 1644), (100, 2146), (500, 4147), (1000, 6650), (5000, 26653)]:
        rows.append(Row("a: polled", at, write(link_ns=at, ops=16), None, figure, figure))
    yield Item("Figure 43", "10.2", "the same for wires", "ns", rows,
               "The slope is two wires a WRITE here, and five in the paper (its decoders hop).",
               "link, ns")


def aperture():
    rows = []
    for verb, figure in [("store", 3), ("load", 6)]:
        rows.append(Row("ub-ldst", verb, of("ub-ldst", verb=verb, link_ns=0, ops=16), None, figure,
                        figure))
    yield Item("§10.2 aperture", "10.2", "a load and a store over a wire of 0 ns", "ns", rows,
               "The paper's 3 and 6 ns never leave the aperture's own memory; a round trip through "
               "two NICs and DRAM is what the model has.")


def decomposition():
    rows = [Row("receive (ethdec)", "share", write(ops=500), None, None, None,
                "phase:target NIC, receive"),
            Row("transmit (jsched and on)", "share", write(ops=500), None, None, None,
                "phase:initiator NIC, transmit")]
    yield Item("Figure 41", "10.2", "where a WRITE's time in the NIC goes", "ns", rows,
               "The paper's 3 : 1 of decoder to scheduler counts how often each was polled, not "
               "what it did.")


def parity():
    yield Item("Figure 37", "10.1", "two NICs side by side", "", [],
               "Functional parity (N of N complete) in the paper; here both stacks pass the same "
               "checks in every run of this page.")
    yield Item("§10.2 applications", "10.2", "YCSB, locks, RPC verbs under an operating system", "",
               [], "See Figures 27 and 33, whose data are compared; unmodified RDMA programs run "
               "over the live NIC (docs/verbs.md).")


def items():
    for part in [parity, paths, decomposition, aperture]:
        yield from part()
