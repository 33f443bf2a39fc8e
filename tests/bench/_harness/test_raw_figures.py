import json
import socket
from pathlib import Path

from bench._harness.plan import Plan
from bench._harness.raw_figures import raw_figures
from bench._harness.result import headline
from tests.bench.samples import benchmark, result


def test_every_measurement_of_every_round_is_kept() -> None:
    """With the machine, the versions and the remarks, so that it can be read without this repository."""
    results = [result("compared", 30, 10), result("alone", 5, None), result("told", 1, 2, counts=False)]
    made = benchmark(*(each.row for each in results))
    raw = raw_figures(made, Plan(1, 0.5), results, ["a remark"], headline(made, results), (0.5, 1.5))
    assert set(raw) == {"benchmark", "rounds", "seconds", "machine", "packages", "remarks", "rows", "ratio"}
    assert (raw["benchmark"], raw["rounds"], raw["seconds"]) == ("example", 1, 0.5)
    assert (raw["machine"]["load_before"], raw["machine"]["load_after"]) == (0.5, 1.5)
    assert list(raw["packages"]) == ["orjson"]
    assert raw["ratio"] == {"row": "compared", "value": 3}
    compared, alone, told = raw["rows"]
    assert compared == {
        "name": "compared",
        "what": "what compared does",
        "unit": "per second",
        "counts": True,
        "ours": {"name": "A", "median": 30, "rounds": [{"value": 30, "operations": 30000, "seconds": 1000}]},
        "other": {"name": "B", "median": 10, "rounds": [{"value": 10, "operations": 10000, "seconds": 1000}]},
        "ratio": 3,
    }
    assert (alone["other"], alone["ratio"], alone["counts"]) == (None, None, False)
    assert (told["ratio"], told["counts"]) == (0.5, False)


def test_it_is_json_and_names_no_machine() -> None:
    """What is published must not say where it was measured."""
    alone = result("alone", 5, None)
    made = benchmark(alone.row)
    text = json.dumps(raw_figures(made, Plan(1, 0.5), [alone], [], None, (0, 0)))
    assert json.loads(text)["ratio"] is None
    assert socket.gethostname() not in text
    assert str(Path.cwd()) not in text
