#!/usr/bin/env python3
"""The experiments of the SCR paper ("white-boxing RDMA"), run again by `fairway sim`: real engines in
simulated time, with the schedulers and congestion controls that run live.

    python3 repro/scr.py                       # some minutes, into target/scr
    python3 repro/scr.py --only fig13 --seeds 1 --out /tmp/scr

Writes a CSV for each figure, page.md, and PNGs if matplotlib is there (repro/requirements.txt). The
paper's number, or its result in words, stands beside ours. Missing are Fig. 2, which needs the
processors of the authors' NIC; Fig. 21, which needs storage or GPUs; and most of 22, which could be
run and was not. Fig. 14b and 14c are of the NIC model (`fairway nic`), Fig. 10c of the control
framework alone (`cargo build --release --package fairway-device --example event_cost` makes it).
repro/README.md lists all figures.
"""

import argparse
import pathlib
import time

from figures import publish
from simulations import ROOT, Runs, arguments
from white_box import control, dequeue, events, fabric, filling, receivers, sharing

EXPERIMENTS = {name: make for part in (sharing, filling, control, events, dequeue, fabric, receivers)
               for name, make in part.EXPERIMENTS.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser, EXPERIMENTS, full=False)
    parser.add_argument("--quick", action="store_true", help="fewer flows in figures 12 and 17")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/scr")
    options = parser.parse_args()
    began, runs, figures = time.monotonic(), Runs(options), []
    for name in options.only or EXPERIMENTS:
        made = EXPERIMENTS[name](runs)
        figures += made if isinstance(made, list) else [made]
    publish(figures, options.out, "SCR's evaluation, run again", time.monotonic() - began,
            options.json)
    runs.keep()


if __name__ == "__main__":
    main()
