"""`python -m fairway ...`: the tool, with these arguments."""

from __future__ import annotations

import os
import sys

from ._tool import MissingPart, tool_path


def main() -> None:
    """Replaces this process by the tool."""
    try:
        tool = tool_path()
        os.execv(tool, ["fairway", *sys.argv[1:]])
    except MissingPart as error:
        sys.exit(f"fairway: {error}")
    except OSError as error:
        sys.exit(f"fairway: {tool} cannot be run: {error}")


if __name__ == "__main__":
    main()
