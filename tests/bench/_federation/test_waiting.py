import os
from pathlib import Path

import pytest

from bench._federation.servers import NODE, SYNAPSE
from bench._federation.waiting import MEMBERS, join, latency, memory
from tests.bench._federation.scripted import scripted


async def test_percentiles_are_in_milliseconds(tmp_path: Path) -> None:
    """Of all events of a run."""
    async with scripted(tmp_path, "{'seconds': [number / 1000 for number in range(1, 102)]}") as servers:
        for percent, expected in ((50, 51), (95, 96)):
            found = await latency(servers, 1.0, percent=percent, measured=NODE)
            assert found.value == pytest.approx(expected)
            assert found.operations == 101


async def test_a_single_event_is_all_percentiles(tmp_path: Path) -> None:
    """A quick run may have no more."""
    async with scripted(tmp_path, "{'seconds': [0.25]}") as servers:
        assert (await latency(servers, 1.0, percent=95, measured=SYNAPSE)).value == 250


async def test_both_times_of_a_join_are_of_one_join(tmp_path: Path) -> None:
    """Of a room of five hundred."""
    async with scripted(tmp_path, "{'joined': members / 1000, 'complete': 2.0}") as servers:
        assert (await join(servers, 1.0, until="joined", measured=NODE)).value == MEMBERS
        assert (await join(servers, 1.0, until="complete", measured=NODE)).value == 2_000


async def test_memory_is_that_of_the_server(tmp_path: Path) -> None:
    """As the kernel says, in MiB."""
    async with scripted(tmp_path, "{}", {NODE: os.getpid(), SYNAPSE: os.getpid()}) as servers:
        assert 10 < memory(servers, 1.0, measured=NODE).value < 8_192
