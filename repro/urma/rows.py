"""What an item of the paper is: rows, each with what to run and what others say of it.

`paper` is the number that the paper's text or figure gives (v1), `artefact` what its repository's
own data says (the CSV files that its scripts plot); they are the only numbers kept by hand.
"""

import dataclasses
import typing

STACKS = ["ub-ldst", "ub-urma", "roce-bf", "roce-dma"]
# The paper's stacks, and the verb that each reads by.
READS = {"ub-ldst": "load", "ub-urma": "read", "roce-bf": "read", "roce-dma": "read"}


@dataclasses.dataclass
class Row:
    """One figure."""

    series: str
    at: typing.Any
    #: Options of `fairway nic`, executed; None if nothing is to be run.
    options: dict | None = None
    #: Options that the oracle's run has besides; None if the oracle has no such row.
    oracle: dict | None = None
    paper: float | None = None
    artefact: float | None = None
    #: A key of the run's JSON object, of its `figures`, or `phase:NAME`.
    metric: str = "mean_ns"
    #: Ours is the metric times this.
    scale: float = 1.0
    #: Instead of running: from other rows' values, `value(series, at)` of the same item.
    derive: typing.Callable | None = None
    #: Must the oracle's number be the artefact's?
    exact: bool = False
    #: Another program's run: a list of arguments to `fairway`, whose JSON is looked into.
    command: list | None = None


@dataclasses.dataclass
class Item:
    """A table, a figure, or a headline."""

    name: str
    section: str
    title: str
    unit: str
    rows: list
    #: Where our numbers differ from the paper's, and why: one sentence.
    note: str
    #: Axis of a plot; None for a table only.
    axis: str | None = None
    log: bool = True


def of(stack, **options):
    """Options of a run."""
    return {"stack": stack, **{name.replace("_", "-"): at for name, at in options.items()}}
