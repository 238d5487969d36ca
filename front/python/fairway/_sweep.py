"""Runs of `fairway sim` over every combination of parameters."""

from __future__ import annotations

import concurrent.futures
import csv
import itertools
import json
import os
import subprocess
import threading
from typing import Any, Callable, Iterable, Optional, Union

from ._tool import find_tool


class SweepError(RuntimeError):
    """A run that the tool refused, or a tool that is not there; the message says why."""


def sweep(workload: Any = "permutation", *, seeds: "Union[int, Iterable[int]]" = 1,
          file: Any = None, executor: Any = None, jobs: Optional[int] = None,
          tool: "Optional[Union[str, os.PathLike[str]]]" = None, timeout: Optional[float] = None,
          each: "Optional[Callable[[dict[str, Any]], Any]]" = None, **settings: Any
          ) -> "list[dict[str, Any]]":
    """Runs `fairway sim` for every combination of parameters.

    Args:
        workload: A workload or a scenario file; or a list of them.
        seeds: How many (from `seed` on, or from 1), or a list of them.
        file: The trace of workload `trace`; or a list of them.
        executor: Where runs go: anything with `submit(function, argument)` that gives futures, as a
            `concurrent.futures.Executor` or a Dask client. None: processes of this machine.
        jobs: Processes at a time; None: one for each core. Only without `executor`.
        tool: The path of `fairway`; None: what FAIRWAY_TOOL (or FAIRWAY) names, or the wheel or
            the search path has.
        timeout: Seconds after which a run is given up; None: never.
        each: Called with every row as it is taken, in order.
        **settings: Settings of the tool by their names, with `_` for `-`. A list (or range) is a
            dimension of the sweep; a tuple is given several times; True and False are on and off.
            `seed` is the first seed, or a list of all.

    Returns:
        A dictionary for each run, in the order of the product, seeds fastest: the parameters that
        were asked for, `workload`, `seed`, `complete` (did it come to its end?), and `result`: what
        `fairway sim --json` printed.

    Raises:
        SweepError: The tool is not there, refuses the settings, or took too long.
        ValueError: Nothing is to be run, or `seed` and `seeds` both list seeds.
    """
    numbers, settings = seeds_of(seeds, settings)
    if file is not None:
        settings = {"file": file, **settings}
    names = ["workload", *settings]
    dimensions = [_values(workload), *map(_values, settings.values())]
    if not numbers or not all(dimensions):
        empty = [name for name, values in zip(names, dimensions) if not values] or ["seeds"]
        raise ValueError(f"{empty[0]} has no value, so nothing would be run")
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs={jobs}: at least 1")
    points = [dict(zip(names, point)) for point in itertools.product(*dimensions)]
    tasks = [(tool, timeout, {**point, "seed": seed}) for point in points for seed in numbers]
    if executor is not None:
        return _take([executor.submit(_run, task) for task in tasks], each)
    jobs = jobs or os.cpu_count() or 1
    runs = _Runs()
    with concurrent.futures.ThreadPoolExecutor(min(jobs, len(tasks))) as local:
        try:
            return _take([local.submit(_run, task, runs) for task in tasks], each)
        except BaseException:
            # Also the handler of a signal may raise (KeyboardInterrupt).
            runs.end()
            raise


def write_csv(rows: "Iterable[dict[str, Any]]", path: "Union[str, os.PathLike[str]]") -> None:
    """Writes rows of `sweep`, or of `fairway.sim.run`, to a file: parameters first, then results;
    lists are left out.

    True and False are `true` and `false`, which pandas and polars read as such.
    """
    flat = [{**{name: value for name, value in row.items() if name != "result"},
             **_flat(row.get("result", {}))} for row in rows]
    flat = [{name: _cell(value) for name, value in row.items()} for row in flat]
    names = list(dict.fromkeys(name for row in flat for name in row))
    with open(path, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, names)
        writer.writeheader()
        writer.writerows(flat)


def seeds_of(seeds: "Union[int, Iterable[int]]", settings: "dict[str, Any]"
             ) -> "tuple[list[int], dict[str, Any]]":
    """The seeds that are run, and the settings without `seed`."""
    others = {name: value for name, value in settings.items() if name != "seed"}
    first = settings.get("seed", 1)
    if isinstance(seeds, int) and not isinstance(first, (list, range)):
        return list(range(int(first), int(first) + seeds)), others
    if "seed" not in settings:
        return list(seeds), others  # type: ignore[arg-type]
    if seeds != 1:
        raise ValueError(f"seed={first!r} and seeds={seeds!r} both say which seeds are run: pass "
                         "one of them, or the first as seed and their number as seeds")
    return list(first), others


def _values(value: Any) -> "list[Any]":
    return list(value) if isinstance(value, (list, range)) else [value]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ";".join(map(_text, value)) if isinstance(value, tuple) else str(value)


def _cell(value: Any) -> Any:
    """A value in a form that other programs read from a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, tuple) else value


def _flat(value: "dict[str, Any]", before: str = "") -> "dict[str, Any]":
    row: "dict[str, Any]" = {}
    for name, one in value.items():
        if isinstance(one, dict):
            row.update(_flat(one, f"{before}{name}."))
        elif not isinstance(one, list):
            row[before + name] = one
    return row


def _take(futures: "list[Any]", each: "Optional[Callable[[dict[str, Any]], Any]]"
          ) -> "list[dict[str, Any]]":
    rows: "list[dict[str, Any]]" = []
    try:
        for future in futures:
            rows.append(future.result())
            if each is not None:
                each(rows[-1])
    except BaseException:
        # What has not begun need not.
        for future in futures:
            future.cancel()
        raise
    return rows


def _command(tool: Any, point: "dict[str, Any]") -> "list[str]":
    tool = find_tool(tool)
    if not tool:
        raise SweepError("there is no program 'fairway' in this package nor in the search path: "
                         "give tool=, or set FAIRWAY_TOOL")
    command = [os.fspath(tool), "sim", str(point["workload"])]
    if "file" in point:
        command.append(os.fspath(point["file"]))
    for name, value in point.items():
        if name not in ("workload", "file"):
            flag = "--" + name.replace("_", "-")
            command += [f"{flag}={_text(one)}" for one in
                        (value if isinstance(value, tuple) else (value,))]
    return [*command, "--json"]


class _Runs:
    """The processes of a sweep that run on this machine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: "set[subprocess.Popen[str]]" = set()
        self._ended = False

    def add(self, process: "subprocess.Popen[str]") -> None:
        with self._lock:
            self._running.add(process)
            if self._ended:
                process.kill()

    def remove(self, process: "subprocess.Popen[str]") -> None:
        with self._lock:
            self._running.discard(process)

    def end(self) -> None:
        """Ends all processes, and those that are added later."""
        with self._lock:
            self._ended = True
            for process in self._running:
                process.kill()


def _run(task: "tuple[Any, Optional[float], dict[str, Any]]", runs: Optional[_Runs] = None
         ) -> "dict[str, Any]":
    """One run, wherever it is: a function of its task alone. `runs` may end it."""
    tool, timeout, point = task
    command, runs = _command(tool, point), runs or _Runs()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise SweepError(f"{command[0]} cannot be run: {error}") from None
    with process:
        runs.add(process)
        try:
            out, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise SweepError(f"{' '.join(command)}: not done after {timeout} s") from None
        finally:
            process.kill()
            runs.remove(process)
    try:
        result = json.loads(out)
    except ValueError:
        raise SweepError(f"{' '.join(command)}: {errors.strip()}") from None
    return {**point, "complete": process.returncode == 0, "result": result}
