"""What a manager of bridges is told of this one: what it is, what it can do, and who is logged in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from appservice.people.double_puppets import Login
from bridge.provisioning.login_steps import flows

NETWORK: Final = "Palaver"
NETWORK_ID: Final = "palaver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """`avatar` is that of the node's user. `takes_tokens`: people can log in."""

    homeserver: str
    node_user: str
    prefix: str
    avatar: str | None = None
    takes_tokens: bool


def whoami(bridge: Bridge, login: Login | None) -> dict[str, Any]:
    return {
        "network": {
            "displayname": NETWORK,
            # There is no site of these agents, and what would be said in its place led nowhere.
            "network_url": "",
            "network_icon": bridge.avatar or "",
            "network_id": NETWORK_ID,
            "beeper_bridge_type": NETWORK_ID,
        },
        "login_flows": flows(takes_tokens=bridge.takes_tokens),
        "homeserver": bridge.homeserver,
        "bridge_bot": bridge.node_user,
        "command_prefix": bridge.prefix,
        "logins": [] if login is None else [_login(login)],
    }


def _login(login: Login) -> dict[str, Any]:
    is_good = login.refused_at is None
    state = {
        "state_event": "CONNECTED" if is_good else "BAD_CREDENTIALS",
        "timestamp": login.made_at if login.refused_at is None else login.refused_at,
    }
    if not is_good:
        state["error"] = "palaver-token-refused"
        state["message"] = "The homeserver does not take the access token any more: log in again."
    return {
        "state": state,
        # "Deprecated", and looked at by older ones.
        "state_event": state["state_event"],
        "state_ts": state["timestamp"],
        "id": login.login_id,
        "name": login.person,
        "profile": {"username": login.person},
    }


CAPABILITIES: Final[Mapping[str, Any]] = {
    "resolve_identifier": {
        "create_dm": True,
        "lookup_phone": False,
        "lookup_email": False,
        "lookup_username": True,
        "any_phone": False,
        "contact_list": True,
        "search": True,
    },
    # Agents meet in rooms that people make, and are invited there.
    "group_creation": {},
    "image_pack_import": False,
}
