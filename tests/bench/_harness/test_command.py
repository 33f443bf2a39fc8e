import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench._harness.child import ChildError
from bench._harness.command import main, select
from bench._harness.measurement import Measurement
from bench._harness.row import Benchmark, Row, Section, Side
from storage.errors import LocalError
from tests.bench.samples import benchmark, per_second, replay, row

ROWS = benchmark(row("http-get"), row("http-put"), row("sha256", compared=False))


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (None, ("http-get", "http-put", "sha256")),
        (["sha256", "http-get"], ("http-get", "sha256")),
        (["http-*"], ("http-get", "http-put")),
        (["nothing"], ()),
    ],
)
def test_rows_are_selected_by_name_or_pattern(patterns: list[str] | None, names: tuple[str, ...]) -> None:
    """In the order of the table, whatever the order of the patterns."""
    assert select(ROWS, patterns) == names


def known() -> Benchmark:
    """Two rounds and a warm-up, of known figures."""
    known = Row(
        name="known",
        what="known work",
        ours=Side("A", replay(per_second(1, 30, 32))),
        other=Side("B", replay(per_second(1, 10, 16))),
    )
    return Benchmark(name="example", sections=[Section(setup=nullcontext, rows=[known])])


def test_the_table_ends_with_the_ratio(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The last line of standard output is for programs; the file keeps what it came from."""
    main(known(), ["--rounds", "2", "--seconds", "0.1", "--json", str(tmp_path / "results" / "raw.json")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "example: ratio 2.50 (A over B, known work; the worst of 1 row)"
    assert sum("ratio 2.50" in line for line in lines) == 1
    assert any(line.split()[-4:] == ["per", "second", "2.50", "2.25–2.75"] for line in lines)
    raw = json.loads((tmp_path / "results" / "raw.json").read_text())
    assert [each["value"] for each in raw["rows"][0]["ours"]["rounds"]] == [30, 32]


def test_a_row_that_does_not_exist_is_refused_with_those_that_do() -> None:
    """Nothing is measured, nobody reads an empty table."""
    with pytest.raises(SystemExit, match=r"no row like http\. It has: http-get http-put sha256"):
        main(ROWS, ["--rows", "http"])


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--seconds", "-1"], ["--seconds", "nan"], ["--fast"]])
def test_senseless_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is started."""
    with pytest.raises(SystemExit) as refusal:
        main(ROWS, arguments)
    assert refusal.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "error", [ChildError("the server ended with status 1"), LocalError("The disk is full.", "Make room.")]
)
def test_what_a_person_can_put_right_is_a_sentence(error: Exception) -> None:
    """A bug keeps its traceback."""

    def fail(subject: None, seconds: float) -> Measurement:
        raise error

    failing = Section(setup=nullcontext, rows=[Row(name="r", what="w", ours=Side("A", fail))])
    with pytest.raises(SystemExit, match=f"^example: {error}$"):
        main(Benchmark(name="example", sections=[failing]), [])
