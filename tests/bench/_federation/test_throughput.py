from pathlib import Path

import pytest

from bench._federation.servers import NODE, SYNAPSE
from bench._federation.throughput import LOADS, cpu, per_second
from tests.bench._federation.scripted import scripted

RUN = "{'events': events, 'seconds': 2.0, 'server_cpu': 0.5, 'postgres_cpu': 0.0}"


@pytest.mark.parametrize(("measured", "events"), [(NODE, 12_000), (SYNAPSE, 2_000)])
async def test_rate_and_cpu_are_read_off_one_run(tmp_path: Path, measured: str, events: int) -> None:
    """There is more to send than either server works off in that time."""
    load = LOADS[0]
    async with scripted(tmp_path, RUN) as servers:
        rated = await per_second(servers, 5.0, load=load, measured=measured)
        used = await cpu(servers, 5.0, load=load, measured=measured, of="server")
        assert rated.operations == used.operations == events
        assert rated.value == events / 2
        assert used.value == pytest.approx(500 / events)
        assert (await cpu(servers, 5.0, load=load, measured=measured, of="postgres")).value > 0


async def test_every_load_has_runs_of_its_own(tmp_path: Path) -> None:
    """On either server."""
    async with scripted(tmp_path, RUN) as servers:
        for load in LOADS:
            for measured in (NODE, SYNAPSE):
                assert (await per_second(servers, 0.001, load=load, measured=measured)).operations >= load.rooms
        assert len(servers.runs) == 6
