"""With the peers and the echo: both near ends, both far ends, in the processes in which they are measured."""

from bench._harness.database import Database
from bench._harness.row import Unit
from bench._limits.round_trips import SECTION, meeting_in, over_notify, over_zenoh


async def test_words_come_back_over_both(served: Database) -> None:
    """A round trip is a word that came back; its latency is in milliseconds."""
    async with meeting_in(served) as subject:
        for sample in (over_zenoh, over_notify):
            measured = await sample(subject, 0.02)
            assert measured.operations > 0
            assert measured.value > 0
        assert list(SECTION.remarks(subject)) == []


def test_the_row_is_information() -> None:
    """The two carry different things to different processes: Palaver uses both."""
    [row] = SECTION.rows
    assert (row.unit, row.counts) == (Unit.MILLISECONDS, False)
