"""§12: coherent fabrics, simulated beside the load/store path, which pays for what it needs."""

from .rows import Item, Row, of


def share(stack, hosts, reads=1, rounds=200, **more):
    ops = rounds * (1 + reads * (hosts - 2))
    options = of(stack, verb="load", workload="share", hosts=hosts, keys=4, reads=reads, ops=ops,
                 **more)
    return options


def state():
    rows = []
    for at in [2, 16, 64, 128]:
        directory = 2 ** 20 * (at / 8 + 8)
        options = share("coherent", at + 1, set="directory_entries=1048576")
        rows.append(Row("coherent: directory of 1 M lines", at, options, None, directory, directory,
                        "directory_bytes"))
        command = ["nic", "--state", "--json", "--jetties", str(at), "--connections", str(at)]
        for series, metric, paper in [("UB", "ub_paper_padded", 108 * at),
                                      ("RoCE", "roce_paper_padded", 512 * at * at)]:
            rows.append(Row(series, at, None, None, paper, paper, metric, command=command))
    yield Item("Figure 46", "12", "fabric state of a host among N", "bytes", rows,
               "The directory is that of the simulated home, a bit per host and 8 B an entry; the "
               "paper's 136 N of UB count the Jetty with all spec fields (48 B), 108 N are its own "
               "Table 5.", "N")


def directory():
    rows = []
    old = {("256K", 1 << 13): 35.6, ("4M", 1 << 13): 35.6, ("256K", 1 << 15): 42.8,
           ("4M", 1 << 15): 40.6, ("256K", 1 << 16): 51.2, ("4M", 1 << 16): 46.9}
    for name, entries in [("256K", 4096), ("1M", 16384), ("4M", 65536)]:
        for lines in [1 << 10, 1 << 12, 1 << 13, 1 << 15, 1 << 16]:
            options = of("coherent", verb="load", workload="scan", hosts=4, keys=lines,
                         ops=min(6 * 3 * lines, 120000),
                         set=f"directory_entries={entries},l2_lines=131072")
            rows.append(Row(f"coherent, directory {name}", lines, options, None, None,
                            old.get((name, lines))))
    for lines in [1 << 12, 1 << 16]:
        options = of("ub-ldst", verb="load", workload="scan", hosts=4, keys=lines, cache="wb",
                     ops=min(6 * 3 * lines, 120000), set="l2_lines=131072")
        rows.append(Row("ub-ldst, the same caches", lines, options, None, 500, 500))
    yield Item("Figure 47", "12", "a directory that is too small (3 hosts scan so many lines)", "ns",
               rows,
               "The paper's cliff is its one CPU's L1 (it moves with no directory size, and one CPU "
               "shares no line); with several hosts and caches that hold it all, lines called "
               "back for lack of entries make a real one, where loads without coherence stay as "
               "they are.", "lines")


def invalidation():
    rows = []
    gem5 = {2: 751, 4: 1732, 8: 2427, 16: 3567, 32: 5840, 64: 9757, 128: 15170}
    for at, figure in gem5.items():
        rows.append(Row("coherent, write", at, share("coherent", at + 1, rounds=60), None,
                        figure if at in (2, 128) else None, figure, "write_mean_ns"))
        rows.append(Row("ub-ldst, store and fence", at, share("ub-ldst", at + 1, rounds=60), None,
                        500, 500, "write_mean_ns"))
        for stack in ["coherent", "ub-ldst"]:
            rows.append(Row(f"{stack}, read after it", at, share(stack, at + 1, rounds=60), None,
                            None, None, "first_read_mean_ns"))
    import math
    rows.append(Row("exponent of the write's growth", "8 to 128", None, None, 0.65, 0.72,
                    derive=lambda value: math.log(value("coherent, write", 128)
                                                  / value("coherent, write", 8)) / math.log(16)))
    yield Item("Figure 48", "12", "one writer, N - 1 readers of a line", "ns", rows,
               "Snoops leave one home port side by side, so a write costs about 15 ns a reader "
               "here, against 115 in gem5; the reads after it cost a coherent fabric more than "
               "loads cost UB, because the first one snoops the writer.", "N")
    rows = []
    for reads in [1, 4, 16, 64]:
        for series, options in [
            ("coherent", share("coherent", 9, reads, 60)),
            ("ub-ldst, uncached", share("ub-ldst", 9, reads, 60)),
            ("ub-ldst, cached, fenced", share("ub-ldst", 9, reads, 60, cache="wt")),
            ("ub-ldst, cached, unfenced (stale)",
             share("ub-ldst", 9, reads, 60, cache="wt", unfenced=True)),
        ]:
            rows.append(Row(series, reads, options, metric="round_mean_ns"))
            if "stale" in series:
                rows.append(Row("of these, stale reads", reads, options, metric="stale_reads"))
    yield Item("§12, consistency paid for", "12", "a change and R reads of it by each of 7 readers",
               "ns a round", rows,
               "The paper leaves the application's cost out: a program that needs the newest value "
               "reads again every time, so a coherent fabric wins wherever lines are read several times per change, "
               "and loses where each is read once.", "R")


def distance():
    rows = []
    for at, figure in [(25, 645), (50, 1246), (100, 2427), (250, 5766), (500, 10760), (1000, 18513)]:
        paper = 18500 if at == 1000 else None
        rows.append(Row("coherent, write, N = 8", at,
                        share("coherent", 9, rounds=60, link_ns=at), None, paper, figure,
                        "write_mean_ns"))
        rows.append(Row("ub-ldst, store and fence", at,
                        share("ub-ldst", 9, rounds=60, link_ns=at), None,
                        2500 if at == 1000 else None, 300 + 2 * at, "write_mean_ns"))
    rows.append(Row("ratio", 1000, None, None, 7.4, 8.05,
                    derive=lambda value: value("coherent, write, N = 8", 1000)
                    / value("ub-ldst, store and fence", 1000)))
    yield Item("Figure 49", "12", "the same over distance", "ns", rows,
               "A coherent write is two round trips (request and snoop) plus the snoops' "
               "serialisation, so the ratio tends to 2 with distance here; gem5's grows with "
               "retries and one snoop after the other (UB at 1 us is 2300, not 2500).", "link, ns")


def items():
    for part in [state, directory, invalidation, distance]:
        yield from part()
