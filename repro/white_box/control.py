"""Figure 10: the cost of events for every packet."""

from figures import Figure
from simulations import spread

from . import streams

LAW = "water-filling:line=100Gbps"
THREADS = 64
# From the event to the rate that is set: the paper measured 7 us to begin and 4 us to compute.
EVENT = "8us"
# Packets of 1 KB, as on their testbed; rates have settled when measuring begins.
SETTINGS = {"mtu": "1K", "measure": "6ms", "end": "10ms"}
SPAN_US = 4000.0
# A flow's turn at the NIC: a packet, or a chunk as by default, whose packets leave back to back.
PACKET, CHUNK = "packet", "32K"


def flows(count):
    """So many flows of 64 KB, depth 4, at most 64 to each receiver."""
    receivers = -(-count // 64)
    each = [f"0-{1 + at} size=64K depth=4 count={count // receivers}" for at in range(receivers)]
    return each, {"nodes": receivers + 1, "hosts-per-leaf": receivers + 1}


def run_of(count, threads, coalescing, turn=PACKET):
    each, nodes = flows(count)
    control = {"control": f"{threads}:{EVENT}", "coalescing": coalescing}
    return streams(each, {**SETTINGS, **nodes, **control, "chunk": turn}, LAW)


def scalability(runs):
    counts = [1, 4, 16, 64, 96, 256, 1024]
    lines = {(count, turn): run_of(count, THREADS, "slots", turn)
             for count in counts for turn in (PACKET, CHUNK)}
    runs.make(lines.values())
    rows, bytes_each, rates = [], [], []
    for count in counts:
        line = lines[count, PACKET]
        of = lambda figure, line=line: [v / SPAN_US
                                        for v in runs.values(line, f"streams.control.{figure}")]
        handled, sent = of("transmits"), [v * 8 / 1000 for v in of("bytes")]
        busy = [value / THREADS for value in of("busy_us")]
        rates.append(handled[0])
        bytes_each.append(runs.median(line, "streams.control.bytes_per_event"))
        rows.append([count, min(count, THREADS), spread(of("collected")), spread(handled),
                     runs.spread(line, "streams.control.bytes_per_event", digits=0),
                     f"{min(1.0, sum(busy) / len(busy)):.1%}", spread(sent, 1),
                     runs.spread(line, "streams.gbps", digits=1),
                     runs.spread(line, "streams.jain", digits=3),
                     runs.spread(lines[count, CHUNK], "streams.control.bytes_per_event",
                                 digits=0)])

    def draw(axes):
        axes.plot(counts, bytes_each, "o-", label="bytes per event")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("flows")
        other = axes.twinx()
        other.plot(counts, rates, "s--", color="tab:red")
        other.set_ylabel("events handled, millions per second (dashed)")

    return Figure(
        "Figure 10a, 10b", f"water-filling at line rate, up to {THREADS} threads of {EVENT} an event",
        ["flows", "threads with flows", "packets reported, M/s", "events handled, M/s",
         "bytes per event", "threads busy", "handled, Gb/s", "goodput, Gb/s", "Jain",
         "bytes per event with turns of 32 KB"], rows,
        "the processor handles all that 100 Gb/s bring; finest from 64 flows and threads on, and "
        "invariant up to 1,024 flows (granularity invariance).",
        "Handled bytes exceed the goodput: they include headers. Each thread has its own flows. "
        "With turns of a packet all threads are busy from 64 flows on, and then the granularity "
        "stays, as the principle says; with 96 flows half of the threads have two flows and the "
        "others are idle for 5 % of the time. With turns of "
        "32 KB a flow's packets come in bursts, threads are idle between them, and the granularity "
        "depends on the bursts: it is not invariant.", draw)


def efficiency(runs):
    threads = [1, 2, 4, 8, 16, 32, 64]
    lines = {(count, how): run_of(64, count, how)
             for count in threads for how in ("slots", "until-threshold")}
    runs.make(lines.values())
    rows, gains = [], []
    for count in threads:
        row, rates = [count], {}
        for how in ("slots", "until-threshold"):
            line = lines[count, how]
            busy = [us / SPAN_US / count for us in runs.values(line, "streams.control.busy_us")]
            rates[how] = [packets / us for packets, us in zip(
                runs.values(line, "streams.control.collected"),
                runs.values(line, "streams.control.busy_us"))]
            row += [runs.spread(line, "streams.control.bytes_per_event", digits=0),
                    f"{min(1.0, sum(busy) / len(busy)):.1%}"]
        gains.append(rates["until-threshold"][0] / rates["slots"][0])
        rows.append([*row, f"{gains[-1]:.1f}"])

    def draw(axes):
        axes.plot(threads, gains, "o-")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("threads")
        axes.set_ylabel("packets reported per thread time, over slots alone")

    return Figure(
        "Figure 10d", "64 flows whose rates have settled: what software coalescing adds to slots",
        ["threads", "slots: bytes per event", "threads busy", "until threshold: bytes per event",
         "threads busy", "packets per thread time, ratio"], rows,
        "hardware and software coalescing handle 51.3 % more events than hardware alone with four "
        "threads, less with many.",
        "Slots gather what comes while the processor is busy, as their hardware does. The policy "
        "requests 64 KB at once when it has settled (early termination); then the data path does not "
        "even call it, where their software still starts a thread: so the gain is larger than theirs.",
        draw)


def state(runs):
    """What is kept for a flow; no run, but the sizes of the live types."""
    keys = 8192
    rows = [["a bit for each flow number of 24 bits", f"{2 ** 24 // 8:,}"],
            [f"Bloom filter of {keys:,} flows, a byte each (`policy::compact`)", f"{keys:,}"],
            ["dense flow numbers, as our engine has them", "0"]]
    return Figure(
        "Figure 10e", "bytes to know the first event of a new flow", ["", "bytes"], rows,
        "2 MB for a bitmap, 8 KB for a Bloom filter at a false positive rate of 0.03.",
        "Sizes by arithmetic; the filter's false positives are tested in `crates/policy` (compact). "
        "Our schedulers need neither: a flow's number is an index, used again when it ends.")


EXPERIMENTS = {"fig10": lambda runs: [scalability(runs), efficiency(runs), state(runs)]}
