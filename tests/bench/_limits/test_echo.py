import json

import pytest
import zenoh

from bench._harness.child import ChildError, child, python_module
from bench._harness.ports import free_port
from bench._limits.zenoh_peer import ZenohPeer, configuration


async def test_the_far_end_says_when_it_is_ready_and_sends_everything_back() -> None:
    """The Postgres echo is tested with the round trips, which need a Postgres anyway."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    async with child("echo", *python_module("bench._limits.echo", "zenoh", endpoint)) as echo:
        assert json.loads(await echo.line(20)) == {"ready": True}
        with zenoh.open(configuration(connect=endpoint)) as session:
            peer = ZenohPeer(session)
            await peer.until_connected()
            await peer.round_trip(b"m" * 64)


async def test_there_are_two_kinds_of_echo(capfd: pytest.CaptureFixture[str]) -> None:
    """Anything else is a mistake of ours."""
    async with child("echo", *python_module("bench._limits.echo", "smoke", "")) as echo:
        with pytest.raises(ChildError, match="echo ended with status 1"):
            await echo.line(20)
    assert "KeyError: 'smoke'" in capfd.readouterr().err
