"""Checking registration, configuration and homeserver."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from appservice.registration.registration import Registration
from bridge.config.appservice import AppService, wanted
from bridge.config.people import DoublePuppet, wanted_puppets
from bridge.node.registration import check_double_puppet, check_registration, write, write_double_puppet
from storage.errors import LocalError
from tests.appservice.registration.test_run_check import FakeHomeserver, served
from tests.support.ports import lasting_port, take

NODE = "kitchen.local"


@asynccontextmanager
async def appservice(tmp_path: Path) -> AsyncIterator[tuple[AppService, Registration, FakeHomeserver]]:
    """A configuration with its registration file, and a fake homeserver that has it and reaches the node."""
    fake = FakeHomeserver()
    async with served(fake) as url:
        port = lasting_port()
        section = AppService(
            homeserver=url, domain="their.server", registration=tmp_path / "registration.yaml", port=port
        )
        written = write(section.registration, wanted(section, NODE))
        fake.whoami = {"user_id": f"@{written.secrets.sender_localpart}:their.server"}
        fake.brings_to = (f"http://127.0.0.1:{port}", written.secrets.hs_token)
        yield section, written, fake


async def test_all_problems(tmp_path: Path) -> None:
    """Differences between file and configuration, and the homeserver's problem."""
    async with appservice(tmp_path) as (section, _, fake):
        assert await check_registration(section, NODE) == ()
        moved = section.model_copy(update={"url": "http://127.0.0.1:9000"})
        fake.whoami = {"user_id": "@somebody:their.server"}
        elsewhere, unknown = await check_registration(moved, NODE)
        section.registration.unlink()
        with pytest.raises(LocalError, match="There is no registration"):
            await check_registration(section, NODE)
    assert "http://127.0.0.1:9000" in elsewhere
    assert "assigns the as_token to @somebody:their.server" in unknown


async def test_ping_is_required(tmp_path: Path) -> None:
    """The port is opened for it. A wrong token is refused, and a ping that did not arrive was answered by
    another program."""
    async with appservice(tmp_path) as (section, written, fake):
        fake.brings_to = (written.url or "", "h" * 43)
        (refused,) = await check_registration(section, NODE)
        fake.brings_to = None
        (strange,) = await check_registration(section, NODE)
    assert "refuses the homeserver's request (status 403)" in refused
    assert "Another program answers" in strange


async def test_running_node_has_the_port(tmp_path: Path) -> None:
    """Then the homeserver's response counts."""
    async with appservice(tmp_path) as (section, _, fake):
        fake.brings_to = None
        with take(section.port):
            assert await check_registration(section, NODE) == ()


async def test_other_requests_get_503(tmp_path: Path) -> None:
    """So that the homeserver repeats transactions and queries."""
    async with appservice(tmp_path) as (section, written, fake):
        headers = {"Authorization": f"Bearer {written.secrets.hs_token}"}
        statuses = []

        async def bring(ping: object) -> object:
            async with aiohttp.ClientSession(headers=headers) as session:
                for method, path in (
                    ("PUT", "transactions/1"),
                    ("GET", "users/%40_agent_worker-1:their.server"),
                    ("GET", "rooms/%23agents-default:their.server"),
                    ("GET", "thirdparty/user/agents?agent=worker-1"),
                    ("GET", "thirdparty/location/agents?namespace=default"),
                ):
                    url = f"{written.url}/_matrix/app/v1/{path}"
                    async with session.request(method, url, data=b'{"events": []}') as answer:
                        statuses.append(answer.status)
            return {"duration_ms": 1}

        fake._bring = bring  # type: ignore[method-assign]  # a homeserver that has more to say
        await check_registration(section, NODE)
    assert statuses == [503] * 5


async def test_double_puppet_registration(tmp_path: Path) -> None:
    """If enabled, the file has to exist and the homeserver has to know it."""
    async with appservice(tmp_path) as (section, _, fake):
        assert await check_double_puppet(DoublePuppet(), section) == ()
        puppets = DoublePuppet(enabled=True, registration=tmp_path / "double-puppet.yaml")
        with pytest.raises(LocalError, match="There is no registration"):
            await check_double_puppet(puppets, section)
        written = write_double_puppet(puppets.registration, wanted_puppets(puppets, section))
        (unknown,) = await check_double_puppet(puppets, section)
        fake.whoami = {"user_id": f"@{written.secrets.sender_localpart}:their.server"}
        assert await check_double_puppet(puppets, section) == ()
        moved = puppets.model_copy(update={"id": "other"})
        (differs,) = await check_double_puppet(moved, section)
    assert "another user's" in unknown
    assert "configuration says “other”" in differs
