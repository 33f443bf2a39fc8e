"""A node that is attached to a homeserver, without one. With one:
`tests/interop/test_appservice_operation.py`."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from appservice.registration.registration import differences, make
from bridge.config.appservice import wanted
from bridge.config.config import Config
from bridge.connectors.offices.config import Offices
from bridge.node.registration import load, new_secrets, text_of, write
from bridge.run import Node
from storage.connect import DatabaseAddress
from storage.errors import LocalError
from tests.support.ports import lasting_port, take

TIMEOUT = 30.0


def _config(directory: Path, address: DatabaseAddress, **more: Any) -> Config:
    section = {
        "homeserver": f"http://127.0.0.1:{lasting_port()}",
        "domain": "their.server",
        "registration": directory / "registration.yaml",
        "port": lasting_port(),
        **more,
    }
    return Config.model_validate(
        {
            "server_name": "kitchen.local",
            "matrix_side": "appservice",
            "data_dir": directory / "data",
            "listener": {"hosts": ["127.0.0.1"], "port": 0, "shutdown_timeout": 2},
            "metrics": {"enabled": False},
            "database": {"url": address.url},
            "appservice": section,
        }
    )


def _register(config: Config) -> None:
    write(config.appservice.registration, wanted(config.appservice, config.server_name))


async def _answer(config: Config, path: str, token: str | None = None) -> tuple[int, Mapping[str, Any]]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    url = f"http://127.0.0.1:{config.appservice.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.json()


async def test_missing_registration_creates_nothing(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """A database would permanently belong to an attached node."""
    config = _config(tmp_path, empty_address.with_database("absent"))
    with pytest.raises(LocalError, match="There is no registration at"):
        await Node(config).start()


async def test_outdated_registration_is_refused(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """With all differences: the homeserver would send to the wrong address."""
    config = _config(tmp_path, empty_address.with_database("absent"))
    _register(config)
    moved = _config(tmp_path, empty_address.with_database("absent"), user_prefix="_other_")
    with pytest.raises(LocalError, match="does not match the configuration") as refused:
        await Node(moved).start()
    assert str(config.appservice.port) in refused.value.problem
    assert "_other_" in refused.value.problem


async def test_offices_need_their_aliases(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """Without offices, an older file is sufficient."""
    config = _config(tmp_path, empty_address.with_database("absent"))
    said = wanted(config.appservice, config.server_name)
    made = make(said, new_secrets())
    without = replace(made, aliases=made.aliases[:-1])
    config.appservice.registration.write_text(text_of(without))
    with_offices = config.model_copy(update={"offices": Offices(enabled=True)})
    with pytest.raises(LocalError, match="does not reserve the aliases of offices"):
        await Node(with_offices).start()
    assert differences(without, said) == ()


async def test_taken_port_is_found_first(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """And no other port remains bound."""
    config = _config(tmp_path, empty_address.with_database("absent"))
    _register(config)
    with take(config.appservice.port), pytest.raises(LocalError, match=str(config.appservice.port)):
        await Node(config).start()


async def test_start_waits_for_the_homeserver(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """The homeserver's port is open, reports live and not ready, and answers queries with 503."""
    config = _config(tmp_path, empty_address)
    _register(config)
    token = load(config.appservice.registration).secrets.hs_token
    steps: asyncio.Queue[str] = asyncio.Queue()
    node = Node(config, step=steps.put_nowait)
    starting = asyncio.create_task(node.start())
    try:
        async with asyncio.timeout(TIMEOUT):
            while not (await steps.get()).startswith("waiting for the homeserver at http://127.0.0.1:"):
                pass
        assert (await _answer(config, "/_matrix/mau/live"))[0] == 200
        assert (await _answer(config, "/_matrix/mau/ready"))[0] == 503
        agent = "/_matrix/app/v1/users/@_agent_cook:their.server"
        assert (await _answer(config, agent))[0] == 401
        status, said = await _answer(config, agent, token)
        assert (status, said["errcode"]) == (503, "M_UNKNOWN")
        sentence = node._health.get("homeserver") or ""
        assert sentence.startswith("The homeserver does not respond at http://127.0.0.1:")
        assert not starting.done()
    finally:
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    # Everything is released.
    with take(config.appservice.port):
        pass
