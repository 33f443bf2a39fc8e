"""The provisioning API of a node attached to a real Synapse."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from tests.interop.appservice_node import NODE_ID, AppserviceNode, appservice_company
from tests.interop.staffed_node import says
from tests.support.matrix_client import MatrixClient
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = pytest.mark.interop


async def ask(
    node: AppserviceNode, method: str, path: str, token: str, body: Any = None, *, user: str | None = None
) -> tuple[int, Any]:
    query = "" if user is None else f"?user_id={quote(user, safe='')}"
    url = URL(f"{node.for_homeserver}/_matrix/provision/v3/{path}{query}", encoded=True)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers, json=body) as answer:
        return answer.status, await answer.json()


async def log_in(node: AppserviceNode, person: MatrixClient, token: str) -> tuple[int, Any]:
    status, step = await ask(node, "POST", "login/start/access_token", person.access_token)
    assert status == 200, step
    path = f"login/step/{step['login_id']}/{step['step_id']}/{step['type']}"
    (field,) = step["user_input"]["fields"]
    return await ask(node, "POST", path, person.access_token, {field["id"]: token})


async def test_people_manage_their_bridge(palaver: Path, authority: Authority, make_synapse: SynapseFactory) -> None:
    """Each with a homeserver token: the bridge's state, whom to write to, and whether the node may send as
    them."""
    synapse = await make_synapse(start=False)
    async with appservice_company(palaver, authority, synapse) as company:
        node, alice, bob = company.node, company.alice, company.bob
        assert isinstance(node, AppserviceNode)
        status, said = await ask(node, "GET", "whoami", alice.access_token, user=alice.user_id)
        assert status == 200, said
        assert (said["homeserver"], said["bridge_bot"]) == (synapse.server_name, node.user("palaver"))
        assert (said["logins"], said["network"]["network_id"]) == ([], "palaver")
        assert said["network"]["network_icon"].startswith("mxc://")

        assert (await ask(node, "GET", "whoami", "guessed"))[0] == 401
        openid = await alice.call("POST", "v3/user/{}/openid/request_token", alice.user_id, json={})
        status, said = await ask(node, "GET", "logins", f"openid:{openid['access_token']}", user=alice.user_id)
        assert (status, said) == (200, {"login_ids": []})

        status, said = await ask(node, "GET", "contacts", bob.access_token)
        assert {one["mxid"] for one in said["contacts"]} == {node.user("baker"), node.user("cook")}
        assert {one["name"] for one in said["contacts"]} == {"The baker", "cook"}
        status, said = await ask(node, "GET", f"resolve_identifier/baker@{NODE_ID}", bob.access_token)
        assert (status, said["id"]) == (200, f"baker@{NODE_ID}")

        # The node may send as Alice, so she joins the chat at once.
        spare = await MatrixClient.login(synapse.homeserver, "alice")
        status, said = await log_in(node, alice, spare.access_token)
        assert (status, said["type"]) == (200, "complete")
        login_id = said["complete"]["user_login_id"]
        status, made = await ask(node, "POST", f"create_dm/{quote(node.user('baker'))}", alice.access_token)
        assert status == 201, made
        room_id = made["dm_room_mxid"]
        assert room_id in await alice.joined_rooms()
        await alice.say(room_id, "Bread for one")
        await alice.wait_for(says("Bread for one", sender=node.user("baker")))
        status, again = await ask(node, "POST", "create_dm/baker", alice.access_token)
        assert (status, again["dm_room_mxid"]) == (200, room_id)

        given = ("task", "send", "--no-wait", "--as", alice.user_id, "baker", "Bread for many")
        assert (await node.cli(*given))[0] == 0
        await alice.wait_for(says("baker: Bread for many", sender=alice.user_id))

        # An expired token is detected and reported.
        await spare.log_out()
        assert (await node.cli(*given[:-1], "Bread for all"))[0] == 0
        fallback = await alice.wait_for(says(f"{alice.user_id} asks baker@{NODE_ID}", "Bread for all"))
        assert fallback["sender"] == node.user("palaver")
        _, said = await ask(node, "GET", "whoami", alice.access_token)
        assert [one["state"]["state_event"] for one in said["logins"]] == ["BAD_CREDENTIALS"]
        assert (await ask(node, "POST", f"logout/{login_id}", alice.access_token))[0] == 200
        code, refused = await node.cli(*given[:-1], "Bread for none")
        assert (code, "cannot act for" in refused["problem"]) == (1, True)

        status, said = await ask(node, "POST", "login/start/access_token", bob.access_token)
        assert (status, said["errcode"]) == (403, "M_FORBIDDEN")
        status, said = await log_in(node, alice, bob.access_token)
        assert (status, said["errcode"]) == (403, "M_FORBIDDEN")
