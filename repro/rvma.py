#!/usr/bin/env python3
"""Figures 7 and 8 of the RVMA paper, run again by `fairway sim`: Sweep3D and Halo3D over mailboxes,
and over RDMA, on four kinds of network, by static and by adaptive routing.

RDMA comes in two kinds. `rdma` is what the paper's text has: the receiver sends the address of its
buffer, the sender writes, and where the network keeps no order a message follows. `rendezvous` is what
the authors' simulation model does: short messages are copied at both ends, long ones are announced,
read and acknowledged. Next to our ratios stand those of that model (SST's branch
`mjleven/aurora`, run with its own script's sizes: 64 ranks, a rank on each node).

    python3 repro/rvma.py                    # 64 nodes, some minutes, into target/rvma
    python3 repro/rvma.py --nodes 512        # or 8192, with a dragonfly only
    python3 repro/rvma.py --full --seeds 1   # 8,192 nodes, 32 ranks on each: two hours of a core, 5 GiB a run;
                                             # Halo3D with one iteration, not ten

Writes a CSV for each figure, page.md, and PNGs if matplotlib is there (repro/requirements.txt).
"""

import argparse
import pathlib
import statistics
import time

from figures import Figure, publish
from simulations import ROOT, Runs, arguments

# By name: settings, and if routing keeps the order of a flow's packets.
NETWORKS = {
    64: {
        "torus, dimension order": ("torus", {"sizes": "4x4x4", "routing": "dimension"}, True),
        "torus, adaptive": ("torus", {"sizes": "4x4x4", "routing": "adaptive"}, False),
        "fat tree, ECMP": ("fat-tree", {"nodes": 64, "routing": "ecmp"}, True),
        "fat tree, adaptive": ("fat-tree", {"nodes": 64, "routing": "adaptive"}, False),
        "HyperX, dimension order": ("hyperx", {"sizes": "4x4", "hosts-per-switch": 4,
                                               "routing": "dimension"}, True),
        "HyperX, UGAL (SST: DOAL)": ("hyperx", {"sizes": "4x4", "hosts-per-switch": 4,
                                                "routing": "ugal"}, False),
        "dragonfly, minimal": ("dragonfly", {"dragonfly": "4:3:4", "hosts-per-switch": 4,
                                             "routing": "dimension"}, True),
        "dragonfly, Valiant": ("dragonfly", {"dragonfly": "4:3:4", "hosts-per-switch": 4,
                                             "routing": "valiant"}, False),
        "dragonfly, UGAL (SST: adaptive-local)": (
            "dragonfly", {"dragonfly": "4:3:4", "hosts-per-switch": 4, "routing": "ugal"}, False),
    },
    512: {
        "torus, dimension order": ("torus", {"sizes": "8x8x8", "routing": "dimension"}, True),
        "HyperX, UGAL (SST: DOAL)": ("hyperx", {"sizes": "8x8", "hosts-per-switch": 8,
                                                "routing": "ugal"}, False),
        "dragonfly, UGAL (SST: adaptive-local)": (
            "dragonfly", {"dragonfly": "8:7:8", "hosts-per-switch": 8, "routing": "ugal"}, False),
    },
    8192: {
        "dragonfly, UGAL (SST: adaptive-local)": (
            "dragonfly", {"dragonfly": "32:15:16", "hosts-per-switch": 16, "routing": "ugal"}, False),
    },
}
LINKS = ["100G", "400G", "2T"]
# SST's model, RDMA and RVMA in microseconds at 100G, 400G and 2T, 64 ranks. Its adaptive routing is of
# another algorithm than ours on HyperX and dragonfly, which the rows name.
SST = {
    "sweep3d": {
        "torus, dimension order": [(873, 340), (575, 125), (546, 102)],
        "fat tree, ECMP": [(851, 336), (585, 123), (554, 102)],
        "fat tree, adaptive": [(851, 334), (585, 123), (553, 102)],
        "HyperX, dimension order": [(767, 374), (485, 124), (455, 106)],
        "HyperX, UGAL (SST: DOAL)": [(755, 342), (486, 120), (460, 93)],
        "dragonfly, minimal": [(799, 377), (508, 125), (477, 101)],
        "dragonfly, Valiant": [(871, 356), (570, 124), (529, 87)],
        "dragonfly, UGAL (SST: adaptive-local)": [(767, 348), (492, 120), (462, 85)],
    },
    "halo3d": {
        "torus, dimension order": [(972, 498), (433, 127), (414, 106)],
        "fat tree, ECMP": [(1043, 562), (460, 151), (435, 130)],
        "fat tree, adaptive": [(1043, 558), (460, 164), (426, 127)],
        "HyperX, dimension order": [(1390, 686), (496, 188), (431, 206)],
        "HyperX, UGAL (SST: DOAL)": [(1020, 615), (416, 162), (351, 127)],
        "dragonfly, minimal": [(1588, 911), (546, 254), (471, 224)],
        "dragonfly, Valiant": [(1502, 849), (503, 210), (421, 144)],
        "dragonfly, UGAL (SST: adaptive-local)": [(1243, 699), (462, 193), (399, 115)],
    },
}
# What was published of all networks and rates (8,192 nodes of 32 ranks).
PUBLISHED = {"sweep3d": "mean 3.56, up to 4.4", "halo3d": "mean 1.57, up to 1.89"}
# Switches of SST's merlin: link and both buffers, 2 KiB packets, cut-through, no packet is lost; so
# neither packets that overtake each other nor those that wait for long are taken for lost.
COMMON = {"latency": "140ns", "mtu": "2K", "switching": "cut-through", "ecn": "off",
          "queue": "64M", "policy": "cc=fixed:1M,path=spray,loss=receiver",
          "reorder-tolerance": 65536, "timeout-min": "20ms", "end": "1s", "copy": "80G", "eager": 16000}
MOTIFS = {
    "sweep3d": {"cells": "30x30x30", "layers": 10, "compute": "1ns"},
    # Ten iterations: with one, the published model's times would be below those of the bytes alone.
    "halo3d": {"cells": "100x100x100", "compute": "0ns", "iterations": 10},
}
PROTOCOLS = ["rvma", "rdma", "rendezvous"]


def scenario(options, motif, network, link, protocol):
    topology, settings, ordered = NETWORKS[options.nodes][network]
    if protocol == "rdma" and ordered:
        protocol = "rdma-ordered"
    line = {**COMMON, **MOTIFS[motif], **settings, "topology": topology, "link": link,
            "protocol": protocol, "paths": 1 if ordered else options.paths,
            "ranks-per-node": options.ranks}
    if options.ranks > 1:
        line["buffers"] = 4
    if options.full and motif == "halo3d":
        line["iterations"] = 1
    return motif, line


def curves(networks, links, ratios):
    """Draws how much longer than over mailboxes a motif takes, by network and link."""
    def draw(axes):
        for at, link in enumerate(links):
            for kind, line in (("rdma", "o-"), ("rendezvous", "s:")):
                axes.plot(range(len(networks)), ratios[kind][at::len(links)], line, color=f"C{at}",
                          label=f"{kind}, {link}")
        axes.set_xticks(range(len(networks)), list(networks), fontsize=6, rotation=15)
        axes.axhline(1, color="grey", linewidth=0.5)
        axes.set_ylabel("time over that of RVMA")
    return draw


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser, MOTIFS)
    parser.add_argument("--nodes", type=int, default=64, choices=NETWORKS)
    parser.add_argument("--ranks", type=int, default=1, help="ranks on each node")
    parser.add_argument("--paths", type=int, default=16)
    parser.add_argument("--link", action="append", choices=LINKS, help="one of the rates; may be repeated")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/rvma")
    options = parser.parse_args()
    if options.full:
        options.nodes, options.ranks = 8192, 32
    began, runs, figures = time.monotonic(), Runs(options), []
    networks, links = NETWORKS[options.nodes], options.link or LINKS
    motifs = [motif for motif in MOTIFS if not options.only or motif in options.only]
    runs.make(scenario(options, motif, network, link, protocol)
              for motif in motifs for network in networks for link in links
              for protocol in PROTOCOLS)
    for motif in motifs:
        rows, ratios = [], {"rdma": [], "rendezvous": []}
        for network in networks:
            for link in links:
                at = LINKS.index(link)
                line = {protocol: scenario(options, motif, network, link, protocol)
                        for protocol in PROTOCOLS}
                times = {protocol: runs.median(line[protocol]) for protocol in PROTOCOLS}
                row = [network, link, *(runs.spread(line[name], digits=0) for name in PROTOCOLS)]
                for kind, found in ratios.items():
                    found.append(times[kind] / times["rvma"])
                    row.append(f"{found[-1]:.2f}")
                sst = SST[motif].get(network) if (options.nodes, options.ranks) == (64, 1) else None
                row += [f"{sst[at][0]} / {sst[at][1]}", f"{sst[at][0] / sst[at][1]:.2f}"] \
                    if sst else ["", ""]
                rows.append(row)
        ranks = options.nodes * options.ranks
        means = (f"{kind} mean {statistics.mean(found):.2f}, up to {max(found):.2f}"
                 for kind, found in ratios.items())
        figures.append(Figure(
            "Figure 7" if motif == "sweep3d" else "Figure 8",
            f"{motif}, {ranks} ranks on {options.nodes} nodes, {options.seeds} seeds, us",
            ["network", "link", "RVMA", "RDMA", "rendezvous", "RDMA/RVMA", "rendezvous/RVMA",
             "SST RDMA / RVMA", "SST ratio"], rows,
            f"RDMA over RVMA, of all networks: {PUBLISHED[motif]}.",
            f"Here, over RVMA: {'; '.join(means)}.", draw=curves(networks, links, ratios)))
    publish(figures, options.out, "RVMA's simulations, run again", time.monotonic() - began,
            options.json)
    runs.keep()


if __name__ == "__main__":
    main()
