"""§13, and what the model adds: ablations that are run, and assumed constants varied."""

from .rows import Item, Row, of

#: Constants that are assumptions of ours, and what else they might be.
ASSUMED = [
    "load_issue_ns", "mmio_hold_ns", "mshrs", "membus_gbytes", "pcie_gbytes",
    "pcie_payload_bytes", "pcie_header_bytes", "pcie_tags", "row_miss_ns", "row_cycle_ns",
    "dram_line_ns", "dram_banks", "row_bytes", "frame_bytes", "rto_us",
]
DEFAULTS = {
    "load_issue_ns": 1, "mmio_hold_ns": 20, "mshrs": 16, "membus_gbytes": 64, "pcie_gbytes": 63,
    "pcie_payload_bytes": 256, "pcie_header_bytes": 24, "pcie_tags": 64, "row_miss_ns": 27.5,
    "row_cycle_ns": 45.75, "dram_line_ns": 2.5, "dram_banks": 16, "row_bytes": 8192,
    "frame_bytes": 24, "rto_us": 100,
}


def ablations():
    rows = []
    shapes = {
        "alone": {}, "32 in flight, 8 Jetties": {"concurrency": 32, "jetties": 8},
        "64 x 64 endpoints": {"jetties": 64, "connections": 64, "ops": 16000},
    }
    known = {("64 x 64 endpoints", "split"): 1000, ("alone", "bus"): 1650, ("alone", "unordered"): 50}
    for name, shape in shapes.items():
        base = {**of("ub-urma", verb="read", ops=4000), **shape}
        for without in [None, "split", "bus", "unordered", "split,bus,unordered"]:
            options = {**base, **({"without": without} if without else {})}
            rows.append(Row(name, without or "all there", options))
        for without in ["split", "bus", "unordered", "split,bus,unordered"]:
            rows.append(Row(f"{name}: what returns", without, None, None, known.get((name, without)),
                            known.get((name, without)),
                            derive=lambda value, name=name, without=without:
                            value(name, without) - value(name, "all there")))
        rows.append(Row(name, "roce-bf", {**base, "stack": "roce-bf"}))
    yield Item("Table 8", "13", "a feature taken away, and run", "ns", rows,
               "The paper subtracts constants; run, the bus is most of it alone, order most of it "
               "in flight, and the split shows where many endpoints take turns.")


def sensitivity():
    rows = []
    runs = [("LOAD, ns", of("ub-ldst", verb="load", ops=1000), "mean_ns"),
            ("DMA READ, ns", of("roce-dma", verb="read", ops=1000), "mean_ns"),
            ("LOAD, 64 in flight, Mops", of("ub-ldst", verb="load", concurrency=64, ops=3000), "mops"),
            ("BF WRITE, 64 in flight, Mops", of("roce-bf", verb="write", concurrency=64, ops=3000),
             "mops"),
            ("UB READ at 1 % loss, 32 in flight, Mops",
             of("ub-urma", verb="read", concurrency=32, loss=0.01, ops=4000), "mops")]
    for name, options, metric in runs:
        rows.append(Row(name, "as it is", options, metric=metric))
        for constant in ASSUMED:
            for factor in [0.5, 2]:
                changed = {**options, "set": f"{constant}={DEFAULTS[constant] * factor}"}
                rows.append(Row(name, f"{constant} x {factor}", changed, metric=metric))
    yield Item("Assumed constants", "-", "each halved and doubled", "", rows,
               "What the paper has no term for, and ours assumes: rows that differ from the first "
               "of their kind by more than a few percent rest on that assumption.")


def items():
    yield from ablations()
    yield from sensitivity()
