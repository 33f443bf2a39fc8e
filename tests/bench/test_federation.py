"""`make bench NAME=federation`, as far as that can be told without running it."""

from bench._harness.row import Row
from bench.federation import FEDERATION


def rows() -> dict[str, Row[object]]:
    return {row.name: row for section in FEDERATION.sections for row in section.rows}


def test_every_figure_has_its_row() -> None:
    """In the order of the table."""
    assert " ".join(FEDERATION.row_names) == (
        "one-room one-room-cpu one-room-postgres rooms rooms-cpu rooms-postgres "
        "origins origins-cpu origins-postgres latency-p50 latency-p95 join join-complete memory "
        "flow-sent flow-received flow-state_ids flow-get_missing_events"
    )


def test_throughput_and_cpu_decide() -> None:
    """The worst of them is the benchmark's ratio; the rest informs."""
    compared = [name for name, row in rows().items() if row.counts and row.other is not None]
    assert compared == ["one-room", "one-room-cpu", "rooms", "rooms-cpu", "origins", "origins-cpu"]


def test_ours_is_compared_with_synapse() -> None:
    """In the words of the last line."""
    sides = {(row.ours.name, row.other.name) for row in rows().values() if row.other is not None}
    assert sides == {("Palaver", "Synapse")}
