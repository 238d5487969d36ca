"""The tables and figures of the OpenURMA paper, §6 to §13, as rows to be run. See `rows.py`."""
