#!/usr/bin/env python3
"""Draws training.svg, beside this file, from the file that `xtask bench` writes: steps of training
per second over each emulated network, with Fairway and with gloo, for the longest model measured.

    xtask bench --part collectives --torch PYTHON --networks leaf-spine,loss-0.1,loss-1,slow-path \\
        --operations training-step --ranks 4
    python3 docs/diagrams/training.py target/bench.json
"""

import json
import pathlib
import sys

from draw import STYLE

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"host": "one host", "leaf-spine": "no loss", "loss-0.1": "0.1 % loss",
         "loss-1": "1 % loss", "slow-path": "one slow path"}
COLUMNS = (("torch_us", "Fairway", "#4c8c4a"), ("gloo_us", "gloo", "#9aa7b4"))
HEIGHT, BAR, GAP, BASE = 180, 44, 40, 230


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sections = json.loads(pathlib.Path(sys.argv[1]).read_text())["transactions"]
    rows = [row for section in sections if section["part"] == "collectives"
            for row in section["rows"] if row["operation"] == "training-step"]
    if not rows:
        sys.exit(f"{sys.argv[1]}: it has no rows of training-step: measure them first, by the "
                 "command that `training.py --help` prints")
    longest = max(row["bytes"] for row in rows)
    ranks = max(row["ranks"] for row in rows)
    rows = [row for row in rows if row["bytes"] == longest and row["ranks"] == ranks]
    most = max(1e6 / row[column] for row in rows for column, _, _ in COLUMNS)
    width = 60 + len(rows) * (2 * BAR + GAP) + 40
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 290" width="{width}">',
           STYLE, f'<rect class="back" width="{width}" height="290"/>',
           f'<text x="20" y="24">Steps per second: {ranks} ranks, '
           f'{longest / 2 ** 20:g} MiB of parameters</text>']
    for place, row in enumerate(rows):
        left = 40 + place * (2 * BAR + GAP)
        for at, (column, _, colour) in enumerate(COLUMNS):
            rate = 1e6 / row[column]
            tall = HEIGHT * rate / most
            x = left + at * BAR
            svg.append(f'<rect x="{x}" y="{BASE - tall:.1f}" width="{BAR - 4}" '
                       f'height="{tall:.1f}" fill="{colour}"/>')
            svg.append(f'<text class="small" x="{x + 6}" y="{BASE - tall - 4:.1f}">'
                       f'{rate:.2f}</text>')
        svg.append(f'<text class="small" x="{left}" y="{BASE + 18}">{NAMES[row["place"]]}</text>')
    for at, (_, name, colour) in enumerate(COLUMNS):
        svg.append(f'<rect x="{40 + 110 * at}" y="262" width="14" height="14" fill="{colour}"/>')
        svg.append(f'<text class="small" x="{60 + 110 * at}" y="274">{name}</text>')
    svg.append("</svg>")
    (HERE / "training.svg").write_text("\n".join(svg) + "\n")
    print("wrote docs/diagrams/training.svg")


if __name__ == "__main__":
    main()
