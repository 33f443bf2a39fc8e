from pathlib import Path

from bench._federation.flow import SECONDS, calls, received, sent
from tests.bench._federation.scripted import scripted

RUN = "{'sent': int(rate * seconds), 'sending': seconds, 'read': 500, 'reading': 25.0}"
REQUEST = "{%s} [%s] Sending request: GET https://x/_matrix/federation/v1/state_ids/!r; timeout 60\n"


async def test_one_flow_is_enough(tmp_path: Path) -> None:
    """It is long enough from the first sample of a full run on."""
    async with scripted(tmp_path, RUN) as servers:
        assert (await sent(servers, 1.25)).value == 200
        assert (await sent(servers, 5.0)).seconds == SECONDS
        assert (await received(servers, 5.0)).value == 20
        assert (await calls(servers, 5.0, endpoint="state_ids")).value == 0
        assert list(servers.runs) == [("flow", "synapse")]


async def test_what_the_synapse_asks_for_is_counted(tmp_path: Path) -> None:
    """Of our node, and while it flows."""
    log = tmp_path / "requests.log"
    log.write_text(REQUEST % ("GET-O-1", "localhost:2"))
    asked = REQUEST % ("GET-O-2", "localhost:2") + REQUEST % ("GET-O-3", "localhost:9")
    # The script writes into the log, as the Synapse does while it is sent to.
    written = f"'written': open({str(log)!r}, 'a').write({asked!r})"
    run = f"{{{written}, 'sent': 1, 'sending': 1.0, 'read': 1, 'reading': 1.0}}"
    async with scripted(tmp_path, run) as servers:
        assert (await calls(servers, 1.0, endpoint="state_ids")).value == 1
        assert (await calls(servers, 1.0, endpoint="get_missing_events")).value == 0
