"""Figure 10c: what an event costs with and without software coalescing, for three signals."""

import json
import re
import shutil
import subprocess

from figures import Figure

# Made by cargo build --release --package fairway-device --example event_cost.
PROGRAM = "examples/event_cost"
SIGNALS = {"tx": "transmit", "credit": "peer's credit", "host": "host's bus"}
FLOWS = [1, 16, 64, 256, 1024]
KINDS = {"off": "off", "4": "4 waiting", "16": "16 waiting", "coverage": "coverage"}
# A run has so many events, and another one twice as many: their difference has no start-up in it.
EVENTS = 32_768


def called(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done


def instructions(program, case):
    """Instructions per event, and events for each time that the controller was run."""
    counts, runs = [], []
    for events in (EVENTS, 2 * EVENTS):
        done = called(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program,
                       *case, str(events)])
        counts.append(int(re.search(r"Collected : (\d+)", done.stderr)[1]))
        runs.append(json.loads(done.stdout))
    sent, handled = (runs[1][name] - runs[0][name] for name in ("events", "handled"))
    return (counts[1] - counts[0]) / sent, sent / max(handled, 1)


def nanoseconds(program):
    """Time per event of each case, from the program's own table."""
    lines = [line.strip("| ").split(" | ") for line in called([program]).stdout.splitlines()]
    return {(cells[0], int(cells[1]), kind): cells[2 + at] for cells in lines
            if len(cells) == 2 + len(KINDS) and cells[1].isdigit() for at, kind in enumerate(KINDS)}


def coalescing(runs):
    program = runs.options.fairway.parent / PROGRAM
    if not program.exists():
        raise SystemExit(f"{program} is missing: cargo build --release --package fairway-device "
                         "--example event_cost")
    counted = shutil.which("valgrind") is not None
    times, found, rows = nanoseconds(program), {}, []
    for signal, name in SIGNALS.items():
        for flows in FLOWS:
            row = [name, flows]
            for kind in KINDS:
                if kind == "coverage" and signal != "tx":
                    row.append("–")
                    continue
                time = times[signal, flows, kind]
                if not counted:
                    found[signal, flows, kind] = float(time)
                    row.append(f"{time} ns")
                    continue
                each, together = instructions(program, (signal, str(flows), kind))
                found[signal, flows, kind] = each
                row.append(f"{each:.0f} ({time} ns, {together:.0f} an event)")
            off, best = found[signal, flows, "off"], found[signal, flows, "16"]
            rows.append([*row, f"{1 - best / off:.0%}"])

    def draw(axes):
        for signal, name in SIGNALS.items():
            for kind in ("off", "16"):
                axes.plot(FLOWS, [found[signal, flows, kind] for flows in FLOWS], "o-",
                          label=f"{name}, {KINDS[kind]}")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("flows")
        axes.set_ylabel("instructions per event" if counted else "ns per event")

    return Figure(
        "Figure 10c", "cost of an event, with and without software coalescing",
        ["signal", "flows", *KINDS.values(), "saved by 16 waiting"], rows,
        "coalescing reduces the cycles per event of all three signals: transmit events by the "
        "coverage of flow rates, credit and the host's bus by keeping the latest event.",
        "Instructions per event sent to the framework (time, and how many the controller is run "
        "for at once), its slot and queue included. N waiting: the thread comes when N events of "
        "each flow wait. Coverage: the thread looks after each event, and none is announced until "
        "the flow has sent the 64 KB that the scheduler asks for. Time is on the machine that runs "
        "this; instructions are counted if valgrind is installed.", draw)


EXPERIMENTS = {"fig10c": lambda runs: [coalescing(runs)]}
