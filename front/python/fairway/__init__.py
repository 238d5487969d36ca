"""Fairway's network simulator from Python: see `sweep`."""

from ._sweep import SweepError, sweep, write_csv

__all__ = ["SweepError", "sweep", "write_csv"]
