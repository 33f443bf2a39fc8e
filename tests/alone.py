"""Run once more, alone, the few tests that failed beside all others: `make test` does it.

Thousands of tests with real servers share the cores of a machine, and one that is fast enough everywhere else
may not be there. That is told, loudly, and a test that fails alone has failed. Many failures are no chance.
"""

import json
import re
import sys
from pathlib import Path

import pytest

MOST = 3
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
# The name that pytest-xdist puts behind the tests of a group.
_GROUP = re.compile(r"@[\w-]+\Z")
# What it calls the processes in which they run.
_PROCESS = re.compile(r"gw\d+")


def failed(text: str) -> list[str]:
    """The tests that failed last, by the names under which pytest finds them. A run in which the processes of
    pytest-xdist did not agree leaves the names of those, until somebody removes them."""
    return [_GROUP.sub("", name) for name in json.loads(text) if not _PROCESS.fullmatch(name)]


def main() -> int:
    names = failed(LAST_FAILED.read_text("utf-8")) if LAST_FAILED.exists() else []
    if not 0 < len(names) <= MOST:
        return 1
    _tell("These failed beside all others. Each is run once more, alone:", names)
    code = int(pytest.main(["-p", "no:cacheprovider", "-p", "no:xdist", *names]))
    if code == 0:
        _tell("Alone they pass. They depend on time or on neighbours, which is a fault:", names)
    return code


def _tell(sentence: str, names: list[str]) -> None:
    sys.stdout.write("\n".join(["", sentence, *(f"  {name}" for name in names), "", ""]))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
