"""Endpoints for logins."""

import pytest

from tests.bridge.people.service.running_node import ALICE, HERE, Servers
from tests.bridge.provisioning.bridge_manager import manager


async def test_whoami_and_capabilities(servers: Servers) -> None:
    """In the expected format."""
    async with manager(servers) as one:
        said = await one.get("whoami")
        assert (said["bridge_bot"], said["command_prefix"]) == (f"@palaver:{HERE}", "!agents")
        assert said["logins"] == []
        assert (await one.get("login/flows"))["flows"] == said["login_flows"]
        assert (await one.get("capabilities"))["resolve_identifier"]["create_dm"] is True


async def test_login_and_logout(servers: Servers) -> None:
    """With the person's own access token; logout uses the login's id."""
    async with manager(servers) as one:
        assert (await one.get("logins")) == {"login_ids": []}
        done = await one.log_in("of-alice-too")
        assert (done.status, done.body["type"]) == (200, "complete")
        login_id = done.body["complete"]["user_login_id"]
        assert await one.get("logins") == {"login_ids": [login_id]}
        (login,) = (await one.get("whoami"))["logins"]
        assert (login["id"], login["name"], login["state"]["state_event"]) == (login_id, ALICE, "CONNECTED")
        assert await one.services.puppets.can_send_as(ALICE)
        for query in (f"?login_id={login_id}", ""):
            await one.get("contacts", query=query)
        assert await one.refused("GET", "contacts", query="?login_id=other") == (404, "M_NOT_FOUND")
        assert await one.refused("POST", f"logout/{login_id}", token="of-bob") == (404, "M_NOT_FOUND")
        assert (await one.ask("POST", f"logout/{login_id}")).status == 200
        assert not await one.services.puppets.can_send_as(ALICE)
        assert await one.refused("POST", f"logout/{login_id}") == (404, "M_NOT_FOUND")
        await one.log_in("of-alice-too")
        for _ in range(2):
            assert (await one.ask("POST", "logout/all")).body == {}
        assert await one.get("logins") == {"login_ids": []}


async def test_other_tokens_are_refused(servers: Servers) -> None:
    """The step can be repeated."""
    async with manager(servers) as one:
        begun = await one.ask("POST", "login/start/access_token")
        path = f"login/step/{begun.body['login_id']}/{begun.body['step_id']}/user_input"
        for token, refused in (
            ("of-bob", (403, "M_FORBIDDEN")),
            ("guessed", (400, "M_INVALID_PARAM")),
            ("", (400, "M_BAD_JSON")),
        ):
            assert await one.refused("POST", path, {"access_token": token}) == refused
        assert (await one.ask("POST", path, {"access_token": "of-alice-too"})).status == 200
        assert await one.refused("POST", path, {"access_token": "of-alice-too"}) == (404, "M_NOT_FOUND")


async def test_login_belongs_to_its_person(servers: Servers) -> None:
    """A cancelled login, or another step, is refused."""
    async with manager(servers) as one:
        begun = await one.ask("POST", "login/start/access_token")
        process = begun.body["login_id"]
        fields = {"access_token": "of-alice-too"}
        path = f"login/step/{process}/{begun.body['step_id']}/user_input"
        assert await one.refused("POST", path, fields, token="of-bob") == (403, "M_FORBIDDEN")
        assert await one.refused("POST", f"login/step/{process}/x/user_input", fields) == (400, "M_BAD_STATE")
        assert await one.refused("POST", "login/start/qr") == (404, "M_NOT_FOUND")
        assert (await one.ask("POST", f"login/cancel/{process}")).status == 200
        assert await one.refused("POST", path, fields) == (404, "M_NOT_FOUND")


async def test_disabled_logins(servers: Servers) -> None:
    """There is no flow to start."""
    async with manager(servers, key=None) as one:
        assert (await one.get("login/flows")) == {"flows": []}
        assert await one.refused("POST", "login/start/access_token") == (404, "M_NOT_FOUND")


@pytest.mark.parametrize("login", ["%00", "x" * 5_000, "..", "%F0%9F%98%80"])
async def test_invalid_login_id(servers: Servers, login: str) -> None:
    """It causes no query."""
    async with manager(servers) as one:
        assert await one.refused("POST", f"logout/{login}") == (404, "M_NOT_FOUND")
