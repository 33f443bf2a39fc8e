"""Examines a server as a federation tester does: every step on its own, every address by itself, nothing from
memory. What follows from what was seen is decided in `federation.peers.check.report`."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import aiohttp
from yarl import URL

from federation.client.client import FederationClient, StreamedResponse
from federation.client.connections import PeerConnections
from federation.client.errors import PeerMalformed, peer_error, refusal
from federation.client.peer_settings import ConfiguredPeers
from federation.client.requests import request_target
from federation.client.server_discovery import Candidate, Route
from federation.homeserver import Homeserver, HomeserverSettings
from federation.keys.key_documents import ServerKey
from federation.keys.server_keys import KeyNeed
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import PeerError
from federation.matrix.identifiers import is_server_name
from federation.peers.check.certificate import UNVOUCHED
from federation.peers.check.connectivity import TIMEOUT, pinning, shake_hands, trusting, unreachable
from federation.peers.check.facts import Asked, Facts, Handshake, Place, Signed, Standing
from storage.database import Database
from storage.federation.server_keys import fetch_keys

ANSWER: Final = 15.0
"""Seconds for an answer."""
SIGNED: Final = 30.0
"""Seconds: the server may have to fetch our keys first."""
MOST_PLACES: Final = 16
AT_ONCE: Final = 8
LARGEST: Final = 256 * 1024
"""Bytes of an answer."""

_KEYS: Final = "/_matrix/key/v2/server"
_VERSION: Final = "/_matrix/federation/v1/version"
# There is no such event. Whoever reads a log knows from its name what was wanted.
_EVENT: Final = request_target(
    "/_matrix/federation/v1/event/{eventId}", eventId="$palaver-asks-whether-its-signature-is-believed"
)


async def examine(homeserver: Homeserver, server: str) -> Facts:
    """Everything that can be seen of a server, also of this one itself. Raises nothing for what it does."""
    settings = homeserver.settings
    standing = _standing(settings, server)
    facts = Facts(server, settings.server_name, homeserver.now_ms(), standing)
    if not is_server_name(server):
        return facts
    explained = await homeserver.resolver.trace(server)
    facts = replace(facts, asked=explained.queries, route=explained.route)
    if not isinstance(explained.route, Route):
        return facts
    nowhere, found = await _addresses(homeserver.connections, server, explained.route)
    examiner = _PlaceExaminer(homeserver, server, standing, explained.route)
    places = await asyncio.gather(*(examiner.examine(place) for place in found[:MOST_PLACES]))
    facts = replace(
        facts,
        names_without_address=nowhere,
        places=tuple(places),
        places_left_out=max(0, len(found) - MOST_PLACES),
    )
    if standing.is_self:
        return replace(facts, own_keys=await _own_keys(homeserver))
    facts = replace(facts, known_keys=await _known_keys(homeserver.database, server))
    if standing.is_admitted and any(place.answers_as(server) for place in places):
        facts = replace(facts, signed=await _ask_signed(homeserver.client, server))
    return facts


def _standing(settings: HomeserverSettings, server: str) -> Standing:
    peers = ConfiguredPeers(settings.peers, settings.added_peers)
    peer = peers.of(server)
    return Standing(
        is_self=server == settings.server_name,
        is_admitted=settings.policy.admits(server),
        is_configured=peers.know(server),
        address=peer.address,
        is_plain=peer.plain,
    )


async def _addresses(
    connections: PeerConnections, server: str, route: Route
) -> tuple[tuple[Candidate, ...], list[Place]]:
    """The candidates that lead nowhere, and the places of the others."""
    nowhere, places = [], []
    for candidate in route.candidates:
        try:
            async with asyncio.timeout(TIMEOUT):
                found = await connections.addresses(server, candidate.host)
        except (OSError, TimeoutError):
            nowhere.append(candidate)
        else:
            places += [Place(candidate, address, is_blocked) for address, is_blocked in found.items()]
    return tuple(nowhere), places


async def _known_keys(database: Database, server: str) -> dict[str, ServerKey]:
    async with database.transaction(readonly=True) as connection:
        rows = await fetch_keys(connection, [server])
    return {
        row.key_id: ServerKey(
            row.server_name,
            row.key_id,
            row.public_key,
            row.valid_until_ts,
            row.expired_ts,
            row.fetched_at,
            row.source,
        )
        for row in rows
    }


async def _own_keys(homeserver: Homeserver) -> dict[str, bytes]:
    """Of itself the key ring has all, whichever is asked for."""
    own = homeserver.settings.server_name
    keys = await homeserver.key_ring.keys_for([KeyNeed(own, "ed25519:own")])
    return {key_id: key.public for key_id, key in keys[own].items()}


async def _ask_signed(client: FederationClient, server: str) -> Signed:
    try:
        await client.request("GET", server, _EVENT, timeout=SIGNED)
    except PeerError as error:
        return Signed(error)
    return Signed()


class _PlaceExaminer:
    """Examines the places of one server, each on connections of its own."""

    def __init__(self, homeserver: Homeserver, server: str, standing: Standing, route: Route) -> None:
        self._homeserver = homeserver
        self._server = server
        self._standing = standing
        self._route = route
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._headers = {
            "Host": route.host_header,
            "User-Agent": f"Palaver/{homeserver.settings.software_version}",
            "Accept-Encoding": "identity",
        }

    async def examine(self, place: Place) -> Place:
        # Others are never to lead us into these. Ourselves we may visit wherever we are.
        if place.is_blocked and not self._standing.is_self:
            return place
        async with self._turns:
            problem = await unreachable(place)
            if problem is not None:
                return replace(place, unreachable=problem)
            context = self._homeserver.connections.ssl_context(self._server)
            if not self._standing.is_plain:
                shake, context = await self._shake_hands(place, context)
                place = replace(place, handshake=shake)
                if shake.version is None:
                    return place
            keys = await self._ask(place, _KEYS, context)
            version = None if keys.problem is not None else await self._ask(place, _VERSION, context)
            return replace(place, keys=keys, version=version)

    async def _shake_hands(self, place: Place, context: ssl.SSLContext) -> tuple[Handshake, ssl.SSLContext]:
        """And what hands can be shaken with again."""
        name = self._route.certificate_name
        shake, _ = await shake_hands(place, name, context)
        if shake.code is not None:
            seen, der = await shake_hands(place, name, trusting())
            shake = replace(shake, certificate=seen.certificate)
            if self._standing.is_self and shake.code in UNVOUCHED and der is not None:
                # Peers may have been told of our authority. All else must hold for them as for others.
                context = pinning(der)
                shake, _ = await shake_hands(place, name, context)
                shake = replace(shake, by_everybody=False, certificate=seen.certificate)
        elif self._standing.is_self and shake.version is not None:
            strict, _ = await shake_hands(place, name, ssl.create_default_context())
            shake = replace(shake, by_everybody=strict.version is not None)
        return shake, context

    async def _ask(self, place: Place, path: str, context: ssl.SSLContext) -> Asked:
        """Over a connection to this very address."""
        scheme = "http" if self._standing.is_plain else "https"
        plain = self._standing.is_plain
        sent_at = self._homeserver.now_ms()
        try:
            async with (
                asyncio.timeout(ANSWER),
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(force_close=True),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,
                ) as session,
                session.get(
                    URL(f"{scheme}://{place.name}{path}", encoded=True),
                    headers=self._headers,
                    allow_redirects=False,
                    ssl=context,
                    server_hostname=None if plain else self._route.certificate_name,
                ) as response,
            ):
                came_at = self._homeserver.now_ms()
                content = await self._read(response)
                date = response.headers.get("Date")
                return Asked(None, content, date, sent_at, came_at)
        except PeerError as error:
            return Asked(error)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return Asked(peer_error(self._server, error))

    async def _read(self, response: aiohttp.ClientResponse) -> Mapping[str, object]:
        body = b"".join([chunk async for chunk in StreamedResponse(self._server, response).chunks(LARGEST)])
        try:
            content = decode(body)
        except NotJson:
            content = None
        if response.status != 200:
            raise refusal(self._server, response.status, content, response.headers)
        if not isinstance(content, dict):
            raise PeerMalformed(self._server, "answered with something that is not a JSON object")
        return content
