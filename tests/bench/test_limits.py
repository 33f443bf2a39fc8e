"""`make bench NAME=limits`, as whoever types it sees it; never how fast it was."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.limits import LIMITS

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "bench.limits")
FIGURE = r"[\d,]+(?:\.\d+)?"


@pytest.fixture
def directory() -> Iterator[str]:
    """Where a run puts its files: a short path, as that of a Unix socket has to be."""
    with tempfile.TemporaryDirectory() as made:
        yield made


def test_a_quick_run_prints_the_table_and_ends_with_the_ratio(tmp_path: Path, directory: str) -> None:
    """Compared rows, an information, a ceiling; then one line, which says that it is the worst."""
    rows = "ed25519-verify,json-parse,sha256,commits,http-tls"
    command = [*COMMAND, "--quick", "--rows", rows, "--json", str(tmp_path / "raw.json")]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": directory},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert list(Path(directory).iterdir()) == [], "a run leaves nothing behind"
    *above, last = run.stdout.splitlines()
    table = "\n".join(above)

    compared = rf"{FIGURE} +{FIGURE} +per second +\d+\.\d\d +\d+\.\d\d–\d+\.\d\d"
    for name in ("ed25519-verify", "json-parse", "commits"):
        assert re.search(rf"^ +{name} .* over .* {compared}", table, re.MULTILINE), name
    assert re.search(rf"^ +http-tls .*TLS over plain \(information\) +{compared}", table, re.MULTILINE)
    assert re.search(rf"^ +sha256 .*hashlib +{FIGURE} +per second +ceiling", table, re.MULTILINE)
    assert re.search(r"^Postgres 18\.\d+ over a Unix socket, fsync on, synchronous_commit on", table, re.MULTILINE)
    assert re.search(r"^Medians of 3 rounds of 0\.02 s a side.* CPUs, load ", table, re.MULTILINE)

    found = re.fullmatch(r"limits: ratio (\d+\.\d\d) \(.+ over .+; the worst of 3 rows\)", last)
    assert found
    assert "limits: ratio" not in table
    raw = json.loads((tmp_path / "raw.json").read_text())
    worst = min(row["ratio"] for row in raw["rows"] if row["counts"])
    assert raw["ratio"]["value"] == worst
    assert found[1] == f"{worst:.2f}"
    assert [row["name"] for row in raw["rows"]] == rows.split(",")
    assert all(len(row["ours"]["rounds"]) == raw["rounds"] == 3 for row in raw["rows"])
    assert run.stderr.splitlines()[0].startswith("ed25519-verify: ")


def test_make_lists_limits_and_none_of_its_parts() -> None:
    """`make bench` lists what does not begin with an underscore."""
    listed = sorted(path.stem for path in (ROOT / "bench").glob("[!_]*.py"))
    assert "limits" in listed
    for name in listed:
        assert f"main({name.upper()})" in (ROOT / "bench" / f"{name}.py").read_text()


def test_every_ceiling_has_its_row() -> None:
    """The ones that later figures are read against, in the order of the table."""
    assert " ".join(LIMITS.row_names) == (
        "ed25519-verify ed25519-sign canonical-json json-parse sha256 commits rows-unnest rows-copy "
        "http-get http-put http-tls crdt-add crdt-apply round-trip"
    )


@pytest.mark.parametrize(
    ("row", "children", "number"), [("commits", 1, signal.SIGTERM), ("http-get", 4, signal.SIGKILL)]
)
def test_nothing_outlives_a_run_that_is_ended(row: str, children: int, number: signal.Signals, directory: str) -> None:
    """Postgres, web servers and load generators end with the benchmark, also when it is killed."""
    command = [*COMMAND, "--rows", row, "--rounds", "100000"]
    run = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": directory},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: len(children_of(run.pid)) >= children)
        time.sleep(0.2)
        started = children_of(run.pid)
        run.send_signal(number)
        printed, said = run.communicate(timeout=20)
        assert run.returncode != 0
        assert printed == ""
        assert said == ("limits: ended before it was done\n" if number == signal.SIGTERM else "")
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
    finally:
        run.kill()
        run.communicate()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
