"""Figures for the programs beside this file: each a table, kept as CSV, drawn if there is something
to draw with, and together a page."""

import csv
import json
import sys


class Figure:
    """A table or figure: its rows, the paper's result in words, and what is to be said of ours."""

    def __init__(self, name, title, heads, rows, paper, note="", draw=None, more=()):
        self.name, self.title, self.heads, self.rows = name, title, heads, rows
        self.paper, self.note = paper, note
        # Draws on the axes that it is handed; of a figure that has several, `axes` says how many.
        self.draw = draw
        # Tables of their own file, as (name, heads, rows): traces too long for a page.
        self.more = more

    def file(self, end):
        plain = "".join(c if c.isalnum() else "-" for c in self.name.lower())
        return "-".join(part for part in plain.split("-") if part) + end


def pyplot():
    """The library that draws, or None."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot as found
        return found
    except ImportError:
        print("no matplotlib: nothing is drawn (pip install -r repro/requirements.txt)",
              file=sys.stderr)
        return None


def write_csv(path, heads, rows):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(rows)


def publish(figures, directory, title, seconds, as_json=False):
    """Writes every figure as CSV and PNG, and all of them as a page. Prints the page, or with
    `as_json` an object for each figure."""
    directory.mkdir(parents=True, exist_ok=True)
    drawing = pyplot()
    out = [f"# {title}", ""]
    for figure in figures:
        write_csv(directory / figure.file(".csv"), figure.heads, figure.rows)
        for name, heads, rows in figure.more:
            write_csv(directory / name, heads, rows)
        out += [f"## {figure.name}: {figure.title}", ""]
        if drawing and figure.draw:
            image, axes = drawing.subplots(figsize=(8, 4.5))
            figure.draw(axes)
            axes.set_title(f"{figure.name}: {figure.title}", fontsize=9)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=7)
            image.savefig(directory / figure.file(".png"), dpi=110)
            drawing.close(image)
            out += [f"![{figure.title}]({figure.file('.png')})", ""]
        out += ["| " + " | ".join(figure.heads) + " |", "|" + "---|" * len(figure.heads)]
        out += ["| " + " | ".join(map(str, row)) + " |" for row in figure.rows]
        out += ["", f"Published: {figure.paper}", ""]
        out += [figure.note, ""] if figure.note else []
    out.append(f"{seconds:.0f} seconds in all.")
    (directory / "page.md").write_text("\n".join(out) + "\n")
    if not as_json:
        print((directory / "page.md").read_text())
        return
    for figure in figures:
        print(json.dumps({"figure": figure.name, "title": figure.title, "published": figure.paper,
                          "note": figure.note, "heads": figure.heads, "rows": figure.rows}))
