"""The simulator of whole networks, with results as rows.

`run` returns a list of dictionaries, which `pandas.DataFrame` and `polars.DataFrame` take as they
are, and which plots itself with one call.
"""

from __future__ import annotations

import csv
import os
import pathlib
import tempfile
from typing import Any, Dict, List, Optional, Union

from ._sweep import SweepError, _flat, _text, _values, seeds_of, sweep

__all__ = ["Rows", "SweepError", "run"]

_INTEGERS = ("seed", "flow", "source", "destination", "bytes", "rank", "host", "call")


def run(workload: Any = "permutation", *, hosts: Any = None, flows: Any = False,
        per_flow: bool = False, seeds: Any = 1, **settings: Any) -> Rows:
    """Runs the simulator for every combination of parameters.

    Args:
        workload: A workload or a scenario file of `fairway sim`; or a list of them.
        hosts: Number of hosts, as `nodes`; or a list of them.
        flows: True: as `per_flow`. A number, or a list of them: the tool's setting, the number of
            flows of such workloads as `websearch`.
        per_flow: Whether there is a row for each flow, instead of one for each run.
        seeds: Number of seeds (from `seed` on, or from 1), or a list of them.
        **settings: Settings of `fairway sim` by their names, with `_` for `-`, as for
            `fairway.sweep`: a list has a run for each of its values.

    Returns:
        A row for each run: the parameters that were given, `workload`, `seed`, `complete`, and the
        figures of `fairway sim --json`, with names such as `completion_us` and `fct_us.p99`; these
        times are None in a run whose flows have not all completed. With `per_flow`, a row for each
        flow: the parameters, `flow`, `source`, `destination`, `bytes`, the times `started_us` and
        `completed_us` of the simulation, and `fct_us`, the time between them; a flow that has not
        completed has None there. Collective operations that run as ranks have a row for each call
        of each rank, with `rank`, `host` and `call`, and the same times.

    Raises:
        SweepError: The tool is not there, or refuses the settings; the message says why.
        ValueError: Both `hosts` and `nodes` were given, or two lists of seeds.
    """
    if isinstance(flows, bool):
        per_flow = per_flow or flows
    else:
        settings = {"flows": flows, **settings}
    if hosts is not None:
        if "nodes" in settings:
            raise ValueError("hosts and nodes are both the number of hosts: pass one of them")
        settings = {"nodes": hosts, **settings}
    seeds, settings = seeds_of(seeds, settings)
    names = [name for name, value in settings.items() if len(_values(value)) > 1]
    names += ["workload"] if len(_values(workload)) > 1 else []
    if not per_flow:
        return Rows([_summary(row) for row in sweep(workload, seeds=seeds, **settings)], names)
    with tempfile.TemporaryDirectory(prefix="fairway-sim-") as directory:
        return Rows(_flows(workload, seeds, settings, pathlib.Path(directory)), names)


class Rows(List[Dict[str, Any]]):
    """Rows of `run`: a list of dictionaries."""

    def __init__(self, rows: "list[dict[str, Any]]", varied: "list[str]") -> None:
        super().__init__(rows)
        self.varied = varied
        """Names of the parameters that have several values."""

    def plot(self, path: "Optional[Union[str, os.PathLike[str]]]" = None, *,
             x: Optional[str] = None, y: Optional[str] = None) -> Any:
        """Draws the rows, and returns the figure of matplotlib.

        Rows of runs: `y` (default: `completion_us`) over the parameter `x` (default: the last number
        that was varied, or the seed), a line for each combination of the others; runs without `y`,
        because they did not finish, are left out, and the title counts them. Rows of flows: how
        large a part of the flows has `y` (default: `fct_us`) up to some value, likewise.

        Args:
            path: A file to write the figure to, such as `"runs.svg"`.
            x: Name of a column.
            y: Name of a column.

        Raises:
            ImportError: matplotlib is not installed.
            ValueError: There are no rows, or no such column.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(f"plots need matplotlib ({error}): pip install matplotlib, or "
                              "pass the rows to another library") from error
        if not self:
            raise ValueError("there are no rows to plot")
        of_flows = "fct_us" in self[0]
        y = y or ("fct_us" if of_flows else "completion_us")
        x = None if of_flows else x or self._abscissa()
        for name in filter(None, (x, y)):
            if not any(name in row for row in self):
                raise ValueError(f"there is no column {name!r}: use {', '.join(self[0])}")
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes = figure.subplots()
        groups = self._groups(x)
        for label, rows in groups.items():
            self._draw(axes, label, rows, (x, y))
        missing = 0 if of_flows else sum(row.get(y) is None for row in self)
        if missing:
            axes.set_title(f"{missing} of {len(self)} runs did not complete and are left out")
        axes.set_xlabel(x or y)
        axes.set_ylabel("part of the flows" if x is None else y)
        if len(groups) > 1:
            axes.legend()
        axes.grid(alpha=0.3)
        if path is not None:
            figure.savefig(path)
        return figure

    def _abscissa(self) -> str:
        """The last parameter that was varied; numbers before texts."""
        numbers = [name for name in self.varied if isinstance(self[0][name], (int, float))]
        return ([*self.varied, *numbers] or ["seed"])[-1]

    def _groups(self, x: Optional[str]) -> "dict[str, list[dict[str, Any]]]":
        """The rows of each line, by its label."""
        groups: "dict[str, list[dict[str, Any]]]" = {}
        for row in self:
            others = [name for name in self.varied if name != x]
            label = ", ".join(f"{name} {_text(row[name])}" for name in others)
            groups.setdefault(label, []).append(row)
        return groups

    @staticmethod
    def _draw(axes: Any, label: str, rows: "list[dict[str, Any]]", names: Any) -> None:
        x, y = names
        if x is None:
            values = sorted(row[y] for row in rows if row[y] is not None)
            parts = [(number + 1) / len(rows) for number in range(len(values))]
            axes.step(values, parts, where="post", label=label)
            return
        by_x: "dict[Any, list[float]]" = {}
        for row in rows:
            if row.get(y) is not None:
                by_x.setdefault(row[x], []).append(row[y])
        numbers = all(isinstance(at, (int, float)) for at in by_x)
        places = list(by_x) if numbers else [_text(at) for at in by_x]
        # The median of the seeds, by the nearest rank as in the tool, and a mark for each.
        middle = [sorted(values)[(len(values) - 1) // 2] for values in by_x.values()]
        [line] = axes.plot(places, middle, label=label)
        for place, values in zip(places, by_x.values()):
            axes.plot([place] * len(values), values, "o", color=line.get_color(), markersize=4,
                      label="_")


def _parameters(row: "dict[str, Any]") -> "dict[str, Any]":
    """The parameters of a row, with values that fit a column."""
    return {name: _text(value) if isinstance(value, (tuple, os.PathLike)) else value
            for name, value in row.items() if name not in ("result", "csv")}


def _summary(row: "dict[str, Any]") -> "dict[str, Any]":
    result = {name: value for name, value in row["result"].items() if name != "configuration"}
    parameters = _parameters(row)
    # A parameter and a figure of the same name: the parameter is what was asked for.
    return {**_flat(result), **parameters}


def _flows(workload: Any, seeds: Any, settings: "dict[str, Any]", directory: pathlib.Path
           ) -> "list[dict[str, Any]]":
    # Each run writes a file of its own: the sweep is over one run at a time.
    rows = []
    for number, (point, seed) in enumerate(_points(workload, seeds, settings)):
        file = directory / f"{number}.csv"
        [row] = sweep(seeds=[seed], csv=file, **point)
        with open(file, newline="", encoding="utf-8") as lines:
            for line in csv.DictReader(lines):
                rows.append({**_parameters(row), **_flow(line)})
    return rows


def _points(workload: Any, seeds: Any, settings: "dict[str, Any]") -> Any:
    """Every combination of parameters and seeds."""
    import itertools
    names = ["workload", *settings]
    dimensions = [_values(value) for value in (workload, *settings.values())]
    for point in itertools.product(*dimensions):
        for seed in seeds:
            yield dict(zip(names, point)), seed


def _flow(line: "dict[str, str]") -> "dict[str, Any]":
    row: "dict[str, Any]" = {}
    for name, text in line.items():
        if name.endswith("_ps"):
            # A call ends, and a flow completes.
            name = "completed_ps" if name == "ended_ps" else name
            row[name[:-3] + "_us"] = int(text) / 1e6 if text else None
        else:
            row[name] = int(text) if name in _INTEGERS else text
    started, completed = row["started_us"], row["completed_us"]
    row["fct_us"] = None if None in (started, completed) else round(completed - started, 6)
    return row
