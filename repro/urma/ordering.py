"""§9: order on request."""

from .rows import Item, Row, of

CYCLE = 3.106


def cold():
    rows = []
    for mode in ["none", "roi", "rot", "rol", "fence", "uno"]:
        options = of("ub-urma", verb="write", payload=8, order=mode, ops=50)
        rows.append(Row(mode, "transmit", options, None, 24, 24, "phase:initiator NIC, transmit",
                        1 / CYCLE))
    yield Item("§9.1", "9.1", "cycles to the wire, by the requested order", "cycles", rows,
               "As in the paper no mode costs a cycle when nothing is under way (a TAACK, which ROI "
               "and ROT add, is counted with its own packet). The model charges no cycle for a mode, "
               "so this agrees by construction.")


def gating():
    rows = []
    for mode, known in [("fence", [4, 31, 42, 37, 48]), ("roi", [7, 34, 46, 42, 38])]:
        for at, figure in enumerate(known):
            base = of("ub-urma", verb="read" if mode == "fence" else "write", payload=8,
                      concurrency=at + 1, ops=2000)
            rows.append(Row(f"{mode}, without", at, base, scale=1 / CYCLE))
            rows.append(Row(f"{mode}, requested", at, {**base, "order": mode}, scale=1 / CYCLE))
            rows.append(Row(mode, at, None, None, figure, figure,
                            derive=lambda value, mode=mode, at=at:
                            value(f"{mode}, requested", at) - value(f"{mode}, without", at)))
    yield Item("Figure 34a", "9.1", "what order adds with so many outstanding", "cycles", rows,
               "The paper counts cycles after the notification that it injects itself; executed, "
               "an ordered operation waits for the round trips of its predecessors, hundreds of "
               "cycles each.", "outstanding")


def isolation():
    rows = []
    for series, options in [
        ("UB, no order", of("ub-urma")), ("UB, ROI strict", of("ub-urma", order="roi")),
        ("RoCE", of("roce-dma")),
    ]:
        base = {**options, "verb": "write", "jetties": 4, "concurrency": 16, "loss": 0.01,
                "ops": 6000}
        for at, metric in [("p50", "p50_ns"), ("p99", "p99_ns")]:
            rows.append(Row(series, at, base, metric=metric))
    yield Item("Figure 34b", "9.2", "operations that wait for losses of others (1 %, 4 Jetties)", "ns", rows,
               "The paper stalls one Jetty by hand and lets eight packets of others pass (78 "
               "cycles; its RoCE run has no stalled Jetty, and 65); here packets are lost, and "
               "unordered operations pass those that wait for a repetition.")


def mixed():
    rows = []
    for stack, verb in [("ub-ldst", "load"), ("ub-urma", "read")]:
        for at, extra in [(0, 0), (5, 1), (25, 5), (50, 10), (100, 20)]:
            base = 500 if stack == "ub-ldst" else 757
            if stack == "ub-ldst":
                rows.append(Row(stack, at, None, None, base + extra, base + extra))
                continue
            oracle = {"ops": 5} if at in (0, 100) else None
            for flight in [1, 32]:
                options = of(stack, verb=verb, order="roi", order_percent=at, concurrency=flight,
                             ops=4000)
                known = base + extra if flight == 1 else None
                rows.append(Row(f"{stack} READ, {flight} in flight", at, options,
                                oracle if flight == 1 else None, known, known,
                                exact=flight == 1))
    for flight in [1, 32]:
        for mode in ["roi", "rot", "rol"]:
            for at in [0, 25, 100]:
                options = of("ub-urma", verb="write", order=mode, order_percent=at,
                             concurrency=flight, ops=4000)
                rows.append(Row(f"WRITE {mode}, {flight} in flight", at, options))
        for at in [0, 100]:
            options = of("roce-dma", verb="read", concurrency=flight, ops=4000)
            rows.append(Row(f"roce-dma READ, {flight} in flight", at, options, None,
                            2186 if flight == 1 else None, 2236 if flight == 1 else None))
    yield Item("Figure 35", "9.3", "a share of strict operations", "ns", rows,
               "The paper adds 20 ns to each; executed, order is nearly free with one in flight "
               "and costs most of the rate with 32, unless the target orders (ROT).", "strict, %")


def fused():
    rows = []
    figures = {8: (750, 750), 64: (757, 753), 256: (799, 795), 1024: (962, 958), 4096: (1621, 1618)}
    for at, (uno, rol) in figures.items():
        for mode, figure in [("uno", uno), ("rol", rol)]:
            options = of("ub-urma", verb="write", payload=at, order=mode, ops=500)
            rows.append(Row(mode, at, options, None, None, figure))
        options = of("ub-urma", verb="write", payload=at, order="roi", ops=500)
        rows.append(Row("roi (acknowledged apart)", at, options))
    yield Item("Figure 36", "9.4", "the transport's acknowledgement is the transaction's", "ns", rows,
               "The paper says 25 ns and its data 3 or 4 (a flit of the payload!); executed with "
               "WRITEs, ROL spares the TAACK that ROI and ROT wait for, and UNO waits for nothing.",
               "payload, B", False)


def classes():
    rows = []
    for mode in ["roi", "rot", "rol"]:
        for at, figure in [(8, 1350), (256, 1102)]:
            options = of("ub-urma", verb="write", payload=at, order=mode, link_ns=50, concurrency=4,
                         ops=2000)
            rows.append(Row(mode, f"{at} B", options, None, figure, figure))
    yield Item("§9.5", "9.5", "modes, WRITEs of 8 and 256 B, four in flight", "ns", rows,
               "In the paper all modes are equal because everything is released in order whatever "
               "the mode; here they differ as their rules do.")


def items():
    for part in [cold, gating, isolation, mixed, fused, classes]:
        yield from part()
