"""Who is logged in, and how one is."""

import pytest

from tests.bridge.people.service.scene import ALICE, HERE, Stage
from tests.bridge.provisioning.bridge_manager import manager


async def test_what_the_bridge_is(play: Stage) -> None:
    """As whoever shows it wants to know."""
    async with manager(play) as one:
        said = await one.get("whoami")
        assert (said["bridge_bot"], said["command_prefix"]) == (f"@palaver:{HERE}", "!agents")
        assert said["logins"] == []
        assert (await one.get("login/flows"))["flows"] == said["login_flows"]
        assert (await one.get("capabilities"))["resolve_identifier"]["create_dm"] is True


async def test_a_person_logs_in_and_out(play: Stage) -> None:
    """By an access token of the person's own; the login has an id, by which it is taken back."""
    async with manager(play) as one:
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


async def test_only_the_persons_own_token_is_taken(play: Stage) -> None:
    """The step stays, for another try."""
    async with manager(play) as one:
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


async def test_nobody_goes_on_with_anothers_login(play: Stage) -> None:
    """Nor with one that was given up, or at a step that it is not at."""
    async with manager(play) as one:
        begun = await one.ask("POST", "login/start/access_token")
        process = begun.body["login_id"]
        fields = {"access_token": "of-alice-too"}
        path = f"login/step/{process}/{begun.body['step_id']}/user_input"
        assert await one.refused("POST", path, fields, token="of-bob") == (403, "M_FORBIDDEN")
        assert await one.refused("POST", f"login/step/{process}/x/user_input", fields) == (400, "M_BAD_STATE")
        assert await one.refused("POST", "login/start/qr") == (404, "M_NOT_FOUND")
        assert (await one.ask("POST", f"login/cancel/{process}")).status == 200
        assert await one.refused("POST", path, fields) == (404, "M_NOT_FOUND")


async def test_where_no_tokens_are_taken_there_is_no_flow(play: Stage) -> None:
    """And nothing to begin."""
    async with manager(play, key=None) as one:
        assert (await one.get("login/flows")) == {"flows": []}
        assert await one.refused("POST", "login/start/access_token") == (404, "M_NOT_FOUND")


@pytest.mark.parametrize("login", ["%00", "x" * 5_000, "..", "%F0%9F%98%80"])
async def test_what_is_no_id_is_no_login(play: Stage, login: str) -> None:
    """It is not even looked for."""
    async with manager(play) as one:
        assert await one.refused("POST", f"logout/{login}") == (404, "M_NOT_FOUND")
