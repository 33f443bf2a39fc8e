"""`palaver peers list` and `retry`."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.service.operator.arguments import Arguments
from bridge.service.operator.destinations import Destinations, load_destinations
from bridge.service.operator.parts import Parts
from federation.identifiers import is_server_name
from storage.errors import LocalError
from storage.inspection import count_rooms_by_server

PAGE: Final = 100
MOST: Final = 1_000


async def peers_list(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Every server that the configuration names or an operator has added, that shares a room with us, that
    something waits for, that does not answer or that was heard from; those in trouble first."""
    arguments = Arguments(given)
    limit = arguments.number("limit", PAGE, MOST)
    words = (arguments.optional_text("search") or "").casefold()
    loaded = await load_destinations(parts)
    async with parts.database.transaction(readonly=True) as connection:
        rooms = await count_rooms_by_server(connection)
    seen = {*loaded.names(), *loaded.views, *parts.outbox.contacts(), *rooms}
    configured = {name.lower() for name in parts.settings.peers}
    # The configuration's spelling of a name that was seen already is not another server.
    lower = {name.lower() for name in seen}
    added = set(parts.settings.added_peers)
    names = seen | {
        name for name in (*parts.settings.peers, *(added - configured)) if name.lower() not in lower
    }
    names.discard(parts.server_name)
    chosen = sorted(
        (name for name in names if words in name.casefold()), key=lambda name: _trouble(loaded, name)
    )
    return {
        "peers": [
            {
                **loaded.shown(parts, name),
                "configured": name.lower() in configured,
                "exchanges_agents": name.lower() in added,
                "admitted": parts.settings.policy.admits(name),
                "rooms": rooms.get(name, 0),
            }
            for name in chosen[:limit]
        ],
        "total": len(chosen),
    }


def _trouble(loaded: Destinations, name: str) -> tuple[bool, bool, str]:
    return name not in loaded.outages, name not in loaded.waiting, name


async def peers_retry(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have one server tried now, or all for which something waits."""
    arguments = Arguments(given)
    server = arguments.optional_text("server")
    loaded = await load_destinations(parts)
    servers = sorted(loaded.waiting) if arguments.flag("all") else [_peer(parts, server)]
    tried = [one for one in servers if parts.settings.policy.admits(one)]
    for one in tried:
        # It may have moved, which may be what was put right.
        parts.resolver.forget(one)
        parts.outbox.retry(one)
    return {
        "tried": [{"server": one, "waiting": one in loaded.waiting} for one in tried],
        "not_admitted": [one for one in servers if one not in tried],
    }


def _peer(parts: Parts, server: str | None) -> str:
    if server is None or not is_server_name(server):
        raise LocalError(f"{server} is not a server name.", "Name a server, or all with --all.")
    if server == parts.server_name:
        raise LocalError(f"{server} is this node itself.", "`palaver peers check --self` checks it.")
    if not parts.settings.policy.admits(server):
        raise LocalError(
            f"The configuration does not let this node speak with {server}.",
            f"`palaver peers check {server}` says more.",
        )
    return server
