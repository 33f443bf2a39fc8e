"""What a bridge manager receives about this bridge: its description, its capabilities, and the person's
login."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from appservice.people.double_puppets import PuppetLogin
from bridge.provisioning.login_steps import flows

NETWORK: Final = "Palaver"
NETWORK_ID: Final = "palaver"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """`avatar` is that of the node's own user. `accepts_tokens`: people can log in."""

    homeserver: str
    node_user: str
    prefix: str
    avatar: str | None = None
    accepts_tokens: bool


def whoami(bridge: Bridge, login: PuppetLogin | None) -> dict[str, Any]:
    return {
        "network": {
            "displayname": NETWORK,
            # The agents have no website.
            "network_url": "",
            "network_icon": bridge.avatar or "",
            "network_id": NETWORK_ID,
            "beeper_bridge_type": NETWORK_ID,
        },
        "login_flows": flows(accepts_tokens=bridge.accepts_tokens),
        "homeserver": bridge.homeserver,
        "bridge_bot": bridge.node_user,
        "command_prefix": bridge.prefix,
        "logins": [] if login is None else [_login(login)],
    }


def _login(login: PuppetLogin) -> dict[str, Any]:
    is_good = login.refused_at is None
    state = {
        "state_event": "CONNECTED" if is_good else "BAD_CREDENTIALS",
        "timestamp": login.made_at if login.refused_at is None else login.refused_at,
    }
    if not is_good:
        state["error"] = "palaver-token-refused"
        state["message"] = "The homeserver no longer accepts the access token: log in again."
    return {
        "state": state,
        # "Deprecated", but read by older managers.
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
    # People create rooms and invite agents to them.
    "group_creation": {},
    "image_pack_import": False,
}
