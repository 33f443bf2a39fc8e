"""The command line of every benchmark: `make bench NAME=… ARGS="--quick --rows … --json …"`."""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import uvloop
from rich.console import Console

from bench._harness.child import ChildError
from bench._harness.machine import load, processors
from bench._harness.plan import Plan
from bench._harness.progress import progress
from bench._harness.raw_figures import raw_figures
from bench._harness.result import headline
from bench._harness.rounds import measure
from bench._harness.row import Benchmark
from bench._harness.table import last_line, table
from storage.errors import LocalError

# As wide as the longest row needs; a terminal says its own width.
_WIDTH_ELSEWHERE = 150


def main(benchmark: Benchmark, arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark as the command line says; the last line on standard output is its ratio."""
    options = _parser(benchmark).parse_args(arguments)
    names = select(benchmark, options.rows)
    if not names:
        known = " ".join(benchmark.row_names)
        raise SystemExit(f"{benchmark.name} has no row like {','.join(options.rows)}. It has: {known}")
    if options.json is not None:
        # Found out now, and not after minutes of measuring.
        options.json.parent.mkdir(parents=True, exist_ok=True)
    plan = benchmark.quick if options.quick else benchmark.full
    plan = replace(plan, rounds=options.rounds or plan.rounds, seconds=options.seconds or plan.seconds)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(benchmark, names, plan, options.json))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise SystemExit(f"{benchmark.name}: ended before it was done") from None
    except (ChildError, LocalError) as error:
        # Both have messages for the user; everything else is a bug and keeps its traceback.
        raise SystemExit(f"{benchmark.name}: {error}") from None


def select(benchmark: Benchmark, patterns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the rows that match any of the patterns, in the table's order; all rows without a pattern."""
    if not patterns:
        return benchmark.row_names
    return tuple(name for name in benchmark.row_names if any(fnmatchcase(name, each) for each in patterns))


async def _run(benchmark: Benchmark, names: Sequence[str], plan: Plan, json_file: Path | None) -> None:
    # SIGINT cancels this task by default; SIGTERM needs a handler, so that the servers are stopped either
    # way.
    this = asyncio.current_task()
    assert this is not None, "a coroutine runs in a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)

    before = load()
    rows = [row for section in benchmark.sections for row in section.rows if row.name in names]
    with progress(sum(len(row.sides) for row in rows) * plan.rounds) as shown:
        results, remarks = await measure(benchmark, names, plan, shown)
    found = headline(benchmark, results)
    loads = before, load()

    if json_file is not None:
        raw = raw_figures(benchmark, plan, results, remarks, found, loads)
        json_file.write_text(json.dumps(raw, indent=1) + "\n")  # noqa: ASYNC240 - nothing runs beside it any more
    notes = [*remarks, _circumstances(plan, loads)]
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_ELSEWHERE)
    console.print(table(benchmark.name, results, notes))
    print(last_line(benchmark.name, found), flush=True)


def _circumstances(plan: Plan, loads: tuple[float, float]) -> str:
    return (
        f"Medians of {plan.rounds} rounds of {plan.seconds:g} s a side; a ratio is the median of theirs. "
        f"{len(processors())} CPUs, load {loads[0]:.1f} before and {loads[1]:.1f} after."
    )


def _parser(benchmark: Benchmark) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m bench.{benchmark.name}", epilog=f"rows: {' '.join(benchmark.row_names)}"
    )
    parser.add_argument("--rows", type=lambda text: text.split(","), help="only these: names or patterns, with commas")
    parser.add_argument("--quick", action="store_true", help="rounds too short to mean anything, for the test")
    full = benchmark.full
    parser.add_argument("--rounds", type=_positive_whole, help=f"how many (default {full.rounds})")
    parser.add_argument("--seconds", type=_positive, help=f"per side and round (default {full.seconds:g})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the raw figures of every round there")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _positive_whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
