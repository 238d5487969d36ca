#!/usr/bin/env python3
"""Draws the diagrams of the book: rooms.svg and write.svg, beside this file.

rooms.svg shows the crates and the imports between them, as xtask/tests/rooms.rs allows them; an
import that others imply is left out. write.svg follows one WRITE; its steps are in this file.

    python3 docs/diagrams/draw.py
"""

import pathlib
import re
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

STYLE = """<style>
text { font: 14px sans-serif; fill: #1b1f24; }
.small { font-size: 12px; fill: #57606a; }
.box { fill: #eef3f8; stroke: #4a6d8c; stroke-width: 1.2; }
.core { fill: #e4f2e4; stroke: #4c8c4a; }
.line { stroke: #6e7781; stroke-width: 1.2; fill: none; marker-end: url(#arrow); }
.life { stroke: #c0c7ce; stroke-width: 1; stroke-dasharray: 4 4; }
.back { fill: #ffffff; }
</style>
<defs><marker id="arrow" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">
<path d="M0,0 L8,4 L0,8 z" fill="#6e7781"/></marker></defs>"""

# Rooms that use nothing but the standard core and alloc.
CORE = {"wire", "policy", "device", "ub", "roce"}


def svg(width, height, title, parts):
    """A picture as text."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img">'
    )
    back = f'<rect class="back" width="{width}" height="{height}"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, back, *parts, "</svg>\n"])


def packages():
    """The names of the crates that exist, without the prefix."""
    names = set()
    for manifest in [*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("front/*/Cargo.toml")]:
        found = re.search(r'^name = "(.+)"', manifest.read_text(), re.M)
        names.add(short(found.group(1)))
    return names - {"fuzz"}


def short(name):
    return name.removeprefix("fairway-")


def arrows():
    """Which crate may import which, as the test of the rooms has it."""
    text = (ROOT / "xtask/tests/rooms.rs").read_text()
    table = text.split("const ARROWS", 1)[1].split("= &[", 1)[1].split("\n];", 1)[0]
    exist = packages()
    found = {}
    for name, imports in re.findall(r'\(\s*"([^"]+)",\s*&\[([^\]]*)\]', table):
        if short(name) in exist:
            targets = {short(target) for target in re.findall(r'"([^"]+)"', imports)}
            found[short(name)] = targets & exist
    assert found, "no arrows in xtask/tests/rooms.rs: has its table another form?"
    return found


def reach(graph, room):
    """Everything below a room."""
    below = set()
    for target in graph.get(room, ()):
        below |= {target} | reach(graph, target)
    return below


def rooms():
    """The crates in layers, each above everything that it imports."""
    graph = arrows()

    def depth(room):
        return max((depth(target) + 1 for target in graph.get(room, ())), default=0)

    layers = {}
    for room in sorted(graph):
        layers.setdefault(depth(room), []).append(room)
    width, box, row, margin = 860, (104, 36), 92, 40
    top = max(layers)
    place = {}
    for level, members in layers.items():
        step = (width - 2 * margin) / len(members)
        for index, room in enumerate(members):
            place[room] = (margin + step * (index + 0.5), margin + row * (top - level) + box[1] / 2)
    parts = []
    for room, targets in sorted(graph.items()):
        implied = set().union(*(reach(graph, target) for target in targets)) if targets else set()
        for target in sorted(targets - implied):
            (x, y), (to_x, to_y) = place[room], place[target]
            parts.append(
                f'<path class="line" d="M{x:.0f},{y + box[1] / 2:.0f}'
                f' L{to_x:.0f},{to_y - box[1] / 2 - 1:.0f}"/>'
            )
    for room, (x, y) in sorted(place.items()):
        kind = "box core" if room in CORE else "box"
        parts.append(
            f'<rect class="{kind}" x="{x - box[0] / 2:.0f}" y="{y - box[1] / 2:.0f}"'
            f' width="{box[0]}" height="{box[1]}" rx="6"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">{escape(room)}</text>'
        )
    height = margin * 2 + row * top + box[1] + 16
    parts.append(
        f'<text class="small" x="{margin}" y="{height - 14}">An arrow is an import. Green: no_std,'
        " no unsafe, no dependencies. Imports that others imply are left out.</text>"
    )
    return svg(width, height, "The crates of Fairway and their imports", parts)


COLUMNS = ["program", "Jetty", "protocol", "sockets", "sockets", "protocol", "memory"]
SIDES = [(0, 3, "initiator"), (4, 6, "target: its program does nothing")]
STEPS = [
    (0, 1, "write(peer, local, remote, id)"),
    (1, 2, "post: check ranges, choose a channel"),
    (2, 3, "poll_transmit: path and packet, payload by name"),
    (3, 4, "one sendmsg sends a chunk of packets (UDP_SEGMENT)"),
    (4, 5, "handle_packet: header check, key, bounds, rights"),
    (5, 6, "placement: copy each payload to its final address, in any order"),
    (6, 5, "handle_placed"),
    (5, 4, "acknowledgement: the bitmap separates loss from reordering"),
    (4, 3, "one datagram back"),
    (3, 2, "handle_packet: what is missing is sent again, and only that"),
    (2, 1, "poll_completion"),
    (1, 0, "wait()?.result()?"),
]


def write():
    """The steps of one WRITE between the parts of two machines."""
    width, margin, head, row = 1040, 70, 84, 40
    step = (width - 2 * margin) / (len(COLUMNS) - 1)
    at = [margin + step * index for index in range(len(COLUMNS))]
    bottom = head + row * len(STEPS) + 20
    parts = []
    for first, last, name in SIDES:
        middle = (at[first] + at[last]) / 2
        parts.append(
            f'<text class="small" x="{middle:.0f}" y="20" text-anchor="middle">{name}</text>'
        )
    for x, name in zip(at, COLUMNS):
        parts.append(
            f'<rect class="box" x="{x - 48:.0f}" y="30" width="96" height="30" rx="6"/>'
            f'<text x="{x:.0f}" y="50" text-anchor="middle">{name}</text>'
            f'<path class="life" d="M{x:.0f},60 V{bottom}"/>'
        )
    for index, (start, end, words) in enumerate(STEPS):
        y = head + row * index + 14
        middle = (at[start] + at[end]) / 2
        # Words near an edge begin or end there.
        anchor, x = "middle", middle
        if middle < 230:
            anchor, x = "start", min(at[start], at[end]) + 6
        elif middle > width - 230:
            anchor, x = "end", max(at[start], at[end]) - 6
        parts.append(
            f'<path class="line" d="M{at[start]:.0f},{y} H{at[end]:.0f}"/>'
            f'<text class="small" x="{x:.0f}" y="{y - 5}" text-anchor="{anchor}">'
            f"{index + 1}. {escape(words)}</text>"
        )
    return svg(width, bottom + 16, "One WRITE, step by step", parts)


if __name__ == "__main__":
    for name, draw in [("rooms", rooms), ("write", write)]:
        (HERE / f"{name}.svg").write_text(draw())
        print(f"wrote docs/diagrams/{name}.svg")
