"""`palaver peers list`, `check` and `retry`, and `palaver queue`: the state of other servers and of the
queues for them, from the database and from the senders of this process."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from bridge.control.server.arguments import Arguments
from federation.homeserver import Homeserver
from federation.matrix.identifiers import is_server_name
from federation.outbox.destination import DestinationView
from federation.peers.check.facts import worst
from federation.peers.check.report import report
from federation.peers.check.run import gather_facts
from storage.errors import LocalError
from storage.federation.outbox import OutageRow, QueueDepth, list_depths, list_outages
from storage.rooms.inspection import count_rooms_by_server, list_first_edus, list_first_pdus


async def peers_check(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check a server and return the findings; a later step needs the earlier ones. May take minutes if the
    server does not answer."""
    arguments = Arguments(given)
    server = arguments.optional_text("server")
    if arguments.flag("self"):
        server = homeserver.server_name
    if not server:
        raise LocalError(
            "The command needs one server or --self.", "Name a server, or use --self for this node itself."
        )
    findings = report(await gather_facts(homeserver, server))
    return {"server": server, "verdict": worst(findings).value, "findings": [asdict(finding) for finding in findings]}


@dataclass(frozen=True, slots=True)
class Destinations:
    """The queues, the outages and the senders of this process, each by server name."""

    waiting: Mapping[str, QueueDepth]
    outages: Mapping[str, OutageRow]
    views: Mapping[str, DestinationView]

    def names(self) -> set[str]:
        return {*self.waiting, *self.outages}

    def shown(self, homeserver: Homeserver, server: str) -> dict[str, Any]:
        """Return a server's state. Times are in milliseconds. Only this process's contacts are in
        `reached_at`, `failed_at`, `failure` and `heard_at`."""
        depth, outage = self.waiting.get(server), self.outages.get(server)
        view, contact = self.views.get(server), homeserver.outbox.contact(server)
        in_flight = None if view is None else view.in_flight
        return {
            "server": server,
            "state": self._state(server),
            "pdus": depth.pdus if depth is not None else 0,
            "edus": depth.edus if depth is not None else 0,
            "oldest_at": depth.oldest if depth is not None else None,
            "lag_ms": max(0, homeserver.now_ms() - depth.oldest) if depth is not None else 0,
            "in_flight": len(in_flight.pdus) + len(in_flight.edus) if in_flight is not None else 0,
            # A server that is unreachable for long has no sender: its queue is only in the database.
            "catching_up": view.catching_up if view is not None else outage is not None,
            "failures": view.failures if view is not None else outage.failures if outage is not None else 0,
            "failing_since": outage.failing_since if outage is not None else None,
            "retry_at": _retry_at(view, outage),
            "reached_at": contact.reached_at,
            "failed_at": contact.failed_at,
            "failure": contact.failure,
            "heard_at": contact.request_received_at,
        }

    def _state(self, server: str) -> str:
        """The state of the server's sender. If no sender runs in this process, it is derived from the
        database."""
        view = self.views.get(server)
        if view is not None:
            return view.state.value
        if server in self.outages:
            return "backing_off"
        return "waiting" if server in self.waiting else "idle"


async def load_destinations(homeserver: Homeserver) -> Destinations:
    async with homeserver.database.transaction(readonly=True) as connection:
        waiting = {depth.destination: depth for depth in await list_depths(connection)}
        outages = await list_outages(connection)
    return Destinations(waiting, outages, homeserver.outbox.view())


def _retry_at(view: DestinationView | None, outage: OutageRow | None) -> int | None:
    if view is not None:
        return view.retry_at
    return outage.retry_at if outage is not None else None


PAGE: Final = 100
MAX_PAGE: Final = 1_000


async def peers_list(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """List every server that is in the configuration or was added by an operator, shares a room with this
    node, has a queue, is unreachable, or has sent a request; servers with problems first."""
    arguments = Arguments(given)
    limit = arguments.number("limit", PAGE, MAX_PAGE)
    words = (arguments.optional_text("search") or "").casefold()
    loaded = await load_destinations(homeserver)
    async with homeserver.database.transaction(readonly=True) as connection:
        rooms = await count_rooms_by_server(connection)
    seen = {*loaded.names(), *loaded.views, *homeserver.outbox.contacts(), *rooms}
    configured = {name.lower() for name in homeserver.settings.peers}
    # Server names are compared without case: the configuration may spell a known name differently.
    lower = {name.lower() for name in seen}
    added = set(homeserver.settings.added_peers)
    names = seen | {name for name in (*homeserver.settings.peers, *(added - configured)) if name.lower() not in lower}
    names.discard(homeserver.server_name)
    chosen = sorted((name for name in names if words in name.casefold()), key=lambda name: _sort_key(loaded, name))
    return {
        "peers": [
            {
                **loaded.shown(homeserver, name),
                "configured": name.lower() in configured,
                "exchanges_agents": name.lower() in added,
                "admitted": homeserver.settings.policy.admits(name),
                "rooms": rooms.get(name, 0),
            }
            for name in chosen[:limit]
        ],
        "total": len(chosen),
    }


def _sort_key(loaded: Destinations, name: str) -> tuple[bool, bool, str]:
    return name not in loaded.outages, name not in loaded.waiting, name


async def peers_retry(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Retry one server now, or all servers with a queue."""
    arguments = Arguments(given)
    server = arguments.optional_text("server")
    loaded = await load_destinations(homeserver)
    servers = sorted(loaded.waiting) if arguments.flag("all") else [_peer(homeserver, server)]
    tried = [name for name in servers if homeserver.settings.policy.admits(name)]
    for name in tried:
        # The server may have a new address.
        homeserver.resolver.invalidate(name)
        homeserver.outbox.retry(name)
    return {
        "tried": [{"server": name, "waiting": name in loaded.waiting} for name in tried],
        "not_admitted": [name for name in servers if name not in tried],
    }


def _peer(homeserver: Homeserver, server: str | None) -> str:
    if server is None or not is_server_name(server):
        raise LocalError(f"{server} is not a server name.", "Name a server, or use --all.")
    if server == homeserver.server_name:
        raise LocalError(f"{server} is this node itself.", "Check it with `palaver peers check --self`.")
    if not homeserver.settings.policy.admits(server):
        raise LocalError(
            f"The configuration does not allow federation with {server}.",
            f"`palaver peers check {server}` shows the details.",
        )
    return server


QUEUE_PAGE: Final = 10
MAX_QUEUED: Final = 100
MAX_SERVERS: Final = 1_000


async def queue(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a server: all servers with a queue, the longest lag first. With a server: its first entries."""
    arguments = Arguments(given)
    server = arguments.optional_text("server")
    if server is None:
        return await _all(homeserver)
    return await _one(homeserver, server, arguments.number("limit", QUEUE_PAGE, MAX_QUEUED))


async def _all(homeserver: Homeserver) -> Mapping[str, Any]:
    loaded = await load_destinations(homeserver)
    waiting = sorted(loaded.waiting.values(), key=lambda depth: (depth.oldest, depth.destination))
    return {
        "servers": [loaded.shown(homeserver, depth.destination) for depth in waiting[:MAX_SERVERS]],
        "total": len(waiting),
        "pdus": sum(depth.pdus for depth in waiting),
        "edus": sum(depth.edus for depth in waiting),
    }


async def _one(homeserver: Homeserver, server: str, limit: int) -> Mapping[str, Any]:
    loaded = await load_destinations(homeserver)
    known = {*loaded.names(), *loaded.views, *homeserver.outbox.contacts()}
    if server not in known:
        raise LocalError(
            f"The queue for {server} is empty, and nothing was sent to it since this node started.",
            "`palaver queue` lists servers with a queue, `palaver peers list` all known servers.",
        )
    async with homeserver.database.transaction(isolation="repeatable_read", readonly=True) as connection:
        pdus = await list_first_pdus(connection, server, limit)
        edus = await list_first_edus(connection, server, limit)
    # Only the process that sends to the server has this.
    view, first_attempt = homeserver.outbox.view().get(server), homeserver.outbox.first_attempt(server)
    in_flight = None if view is None else view.in_flight
    sent_pdus = {pdu.position for pdu in in_flight.pdus} if in_flight else set()
    sent_edus = {edu.position for edu in in_flight.edus if not edu.ephemeral} if in_flight else set()
    return {
        **loaded.shown(homeserver, server),
        "transaction": None
        if in_flight is None or first_attempt is None or first_attempt.number != in_flight.number
        else {
            "transaction_id": first_attempt.transaction_id,
            "first_sent_at": first_attempt.at_ms,
            "pdus": len(in_flight.pdus),
            "edus": len(in_flight.edus),
        },
        "first_pdus": [
            {
                "event_id": pdu.event_id,
                "type": pdu.type,
                "room_id": pdu.room_id,
                "queued_at": pdu.queued_at,
                "in_flight": pdu.position in sent_pdus,
            }
            for pdu in pdus
        ],
        "first_edus": [
            {"type": edu.edu_type, "queued_at": edu.queued_at, "in_flight": edu.position in sent_edus} for edu in edus
        ],
    }
