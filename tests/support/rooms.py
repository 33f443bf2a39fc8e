"""Rooms of signed events for tests: several servers, forks, legal moves and illegal ones.

Every server signs with the key that its name gives it, and time advances by one millisecond an event, so
that a room is the same each time it is made.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from nacl.signing import SigningKey

from federation.auth_rules import Allowed, Refused, Verdict, auth_event_keys, check, check_independent
from federation.events import EventId, Pdu, Signer, StateKey, Template, build, parse
from federation.events.event_signatures import add_signature
from federation.matrix.identifiers import domain
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import VerifyKey
from federation.state_resolution.resolve import Resolution, resolve

FOREVER = 2**53 - 1

ALICE, BOB, CAROL, DAVE = "@alice:a.example", "@bob:b.example", "@carol:c.example", "@dave:d.example"
"""Four people on four servers. Alice creates the rooms."""


@cache
def signer(server: str) -> Signer:
    """Return the server's only key, `ed25519:test`."""
    return Signer(server, "ed25519:test", SigningKey(hashlib.sha256(server.encode()).digest()))


def verify_keys(*servers: str, valid_until_ts: int = FOREVER) -> dict[str, dict[str, VerifyKey]]:
    """Return what a key ring knows about these servers."""
    return {
        server: {signer(server).key_id: VerifyKey(bytes(signer(server).key.verify_key), valid_until_ts)}
        for server in servers
    }


class Room:
    """A room. `propose` builds an event without changing the room; `send` adds one that must be allowed."""

    def __init__(self, version: str, *, creator: str = ALICE, **content: Any) -> None:
        self.version = ROOM_VERSIONS[version]
        self.events: dict[EventId, Pdu] = {}
        self.state_after: dict[EventId, dict[StateKey, EventId]] = {}
        self.rejected: set[EventId] = set()
        self.now = 1_000
        if self.version.creator_in_content:
            content = {"creator": creator, **content}
        made = Template(
            "m.room.create",
            creator,
            {"room_version": version, **content},
            self.now,
            room_id=None if self.version.create_event_is_room_id else f"!room:{domain(creator)}",
            state_key="",
        )
        self.create = _built(build(made, self.version, signer(domain(creator) or "")))
        self.room_id = self.create.room_id
        self.head: list[Pdu] = []
        self.add(self.create)

    # -- events --

    def propose(
        self,
        type_: str,
        sender: str,
        content: Mapping[str, Any],
        state_key: str | None = None,
        *,
        after: Sequence[Pdu] | None = None,
        auth: Sequence[Pdu] | None = None,
        redacts: EventId | None = None,
        also_signed_by: Sequence[str] = (),
    ) -> Pdu:
        """Build an event after `after`, or at the head of the room, with the correct auth events, or with
        `auth`."""
        previous = self.head if after is None else list(after)
        self.now += 1
        template = Template(
            type_,
            sender,
            content,
            self.now,
            room_id=self.room_id,
            state_key=state_key,
            redacts=redacts,
            prev_events=[pdu.event_id for pdu in previous],
            prev_depths=[pdu.depth for pdu in previous],
        )
        if auth is None:
            state = self.state(after)
            auth = [state[key] for key in auth_event_keys(template, self.version) if key in state]
        with_auth = Template(
            **{name: getattr(template, name) for name in template.__slots__}
            | {"auth_events": [a.event_id for a in auth]}
        )
        pdu = _built(build(with_auth, self.version, signer(domain(sender) or "")))
        for server in also_signed_by:
            cosigner = signer(server)
            pdu = _built(
                parse(add_signature(pdu.event, self.version, server, cosigner.key_id, cosigner.key), self.version)
            )
        return pdu

    def send(
        self, type_: str, sender: str, content: Mapping[str, Any], state_key: str | None = None, **how: Any
    ) -> Pdu:
        """Add an event that the rules allow."""
        pdu = self.propose(type_, sender, content, state_key, **how)
        verdict = self.verdict(pdu)
        assert isinstance(verdict, Allowed), str(verdict)
        return self.add(pdu)

    def add(self, pdu: Pdu, *, rejected: bool = False) -> Pdu:
        """Add an event, whether the rules allow it or not. A rejected event changes neither the state nor the
        head."""
        self.events[pdu.event_id] = pdu
        before = self._resolved(pdu.prev_events)
        self.state_after[pdu.event_id] = before if rejected or pdu.key is None else {**before, pdu.key: pdu.event_id}
        if rejected:
            self.rejected.add(pdu.event_id)
        else:
            self.head = [*(old for old in self.head if old.event_id not in pdu.prev_events), pdu]
        return pdu

    # -- what people do --

    def member(self, sender: str, target: str, membership: str, **how: Any) -> Pdu:
        content = {"membership": membership, **how.pop("content", {})}
        return self.send("m.room.member", sender, content, target, **how)

    def join(self, user: str, **how: Any) -> Pdu:
        return self.member(user, user, "join", **how)

    def power_levels(self, sender: str, content: Mapping[str, Any], **how: Any) -> Pdu:
        return self.send("m.room.power_levels", sender, content, "", **how)

    def join_rule(self, sender: str, rule: str, **how: Any) -> Pdu:
        return self.send("m.room.join_rules", sender, {"join_rule": rule}, "", **how)

    def topic(self, sender: str, topic: str, **how: Any) -> Pdu:
        return self.send("m.room.topic", sender, {"topic": topic}, "", **how)

    def say(self, sender: str, body: str = "hello", **how: Any) -> Pdu:
        return self.send("m.room.message", sender, {"msgtype": "m.text", "body": body}, **how)

    # -- what follows from it --

    def state(self, after: Sequence[Pdu] | None = None) -> dict[StateKey, Pdu]:
        """Return the state after these events, or at the head of the room."""
        ends = self.head if after is None else after
        return {key: self.events[event_id] for key, event_id in self._resolved([pdu.event_id for pdu in ends]).items()}

    def propose_auth(self, sender: str) -> list[Pdu]:
        """Return the auth events of a message of this sender at the head of the room."""
        template = Template("m.room.message", sender, {}, self.now)
        state = self.state()
        return [state[key] for key in auth_event_keys(template, self.version) if key in state]

    def verdict(self, pdu: Pdu, state: Mapping[StateKey, Pdu] | None = None) -> Verdict:
        """Check an event against the state before it, or against another state."""
        independent = check_independent(pdu, self.events, self.version, rejected=self.rejected, create=self.create)
        if isinstance(independent, Refused):
            return independent
        if state is None:
            state = self.state([self.events[event_id] for event_id in pdu.prev_events])
        return check(pdu, state, self.version)

    def _resolved(self, event_ids: Sequence[EventId]) -> dict[StateKey, EventId]:
        sets = [self.state_after[event_id] for event_id in event_ids]
        if not sets:
            return {}
        resolution = resolve(self.version, sets, self.events, rejected=self.rejected)
        assert isinstance(resolution, Resolution)
        return dict(resolution.state)


def public_room(version: str, *members: str, levels: Mapping[str, Any] | None = None, **content: Any) -> Room:
    """A public room of Alice that these users have joined. Bob has power 50 in it."""
    room = Room(version, **content)
    room.join(ALICE)
    users = {BOB: 50} if room.version.creators_have_infinite_power else {ALICE: 100, BOB: 50}
    room.power_levels(ALICE, {"users": users, **(levels or {})})
    room.join_rule(ALICE, "public")
    for member in members:
        room.join(member)
    return room


def levels_of(room: Room) -> dict[str, Any]:
    """Return a copy of the current power levels, to be changed."""
    content = room.state()["m.room.power_levels", ""].content
    return {name: dict(value) if isinstance(value, dict) else value for name, value in content.items()}


def _built(made: object) -> Pdu:
    assert isinstance(made, Pdu), made
    return made
