#!/usr/bin/env python3
"""Packets over several paths, for operations with and without order: throughput, and how many
packets wait in the two places where order is restored.

    python3 repro/order.py                      # ten seconds of a core, into target/order
    python3 repro/order.py --seeds 1 --json

The transport records packets that come before earlier ones of their channel, and places their
payload at once. The transaction layer of the target keeps those whose turn has not come, if the
operation is to be executed strictly in order (mode ROT).

Writes a CSV, and page.md.
"""


from figures import Figure
from simulations import program

PAIRS, DEPTH = 8, 64
NETWORK = {"topology": "leaf-spine", "nodes": 2 * PAIRS, "hosts-per-leaf": PAIRS, "link": "100G",
           # These messages are of one packet, and would otherwise all take one path.
           "small-messages": 0, "measure": "500us", "end": "2ms"}
ORDERS = [("none", "rot"), ("relaxed", "rot"), ("strict", "rot"), ("strict", "roi")]
PATHS = [1, 2, 4, 8]


def line(order, mode, paths):
    # Without an order, no side enforces one.
    wanted = f"order={order} mode={mode}" if order != "none" else "order=none"
    streams = tuple(f"{host}-{host + PAIRS} size=4K depth={DEPTH} {wanted}"
                    for host in range(PAIRS))
    return "streams", {**NETWORK, "paths": paths, "stream": streams}


def order(runs, options):
    lines = {(tag, mode, paths): line(tag, mode, paths) for tag, mode in ORDERS for paths in PATHS}
    runs.make(lines.values())
    body = [[tag, mode.upper(), paths, runs.spread(one, "streams.gbps", digits=0),
             runs.spread(one, "early_packets_max", digits=0),
             runs.spread(one, "deferred_packets_max", digits=0)]
            for (tag, mode, paths), one in lines.items()]
    return Figure("Order", f"{PAIRS} pairs of hosts under two leaves and {PAIRS} spines, 100 Gb/s, "
                  f"WRITEs of 4 KiB, {DEPTH} in flight; {options.seeds} seeds",
                  ["order", "mode", "paths", "Gb/s", "transport: most packets early",
                   "transactions: most packets waiting"], body, "twice the rate by two paths")


EXPERIMENTS = {"order": order}

if __name__ == "__main__":
    program(__doc__, EXPERIMENTS, "order", "Order over several paths")
