"""Valid requests of servers: paths, queries, bodies, events and EDUs."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

GOOD, EVIL = "good.test", "evil.test"
ALICE, BOB = f"@alice:{GOOD}", f"@bob:{EVIL}"
HASH: Final = "A" * 43
PLACE: Final = re.compile(r"\{(\w+)\}")
CONTENTS: Final[tuple[tuple[str, str | None, dict[str, Any]], ...]] = (
    (
        "m.room.message",
        None,
        {
            "msgtype": "m.text",
            "body": "b",
            "m.relates_to": {
                "rel_type": "m.replace", "event_id": "$a", "key": "k", "m.in_reply_to": {"event_id": "$a"},
                "is_falling_back": True,
            },
            "m.new_content": {"body": "c"},
            "m.mentions": {"user_ids": [ALICE]},
        },
    ),
    ("m.room.redaction", None, {"redacts": "$a", "reason": "r"}),
    ("m.reaction", None, {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$a", "key": "k"}}),
    ("m.room.name", "", {"name": "n"}),
    ("m.room.topic", "", {"topic": "t"}),
    ("m.room.avatar", "", {"url": "mxc://a/b"}),
    ("m.room.canonical_alias", "", {"alias": f"#a:{GOOD}", "alt_aliases": [f"#b:{GOOD}"]}),
    ("m.room.history_visibility", "", {"history_visibility": "shared"}),
    ("m.room.guest_access", "", {"guest_access": "can_join"}),
    ("m.room.join_rules", "", {
        "join_rule": "restricted", "allow": [{"type": "m.room_membership", "room_id": f"!a:{GOOD}"}],
    }),
    ("m.room.power_levels", "", {
        "users": {BOB: 100, ALICE: 100}, "events": {"m.room.name": 0}, "users_default": 0, "ban": 50,
        "notifications": {"room": 50},
    }),
    ("m.room.server_acl", "", {"allow": ["*"], "deny": ["a.*"], "allow_ip_literals": True}),
    ("m.room.third_party_invite", "token", {
        "display_name": "d", "key_validity_url": "https://a", "public_key": HASH,
        "public_keys": [{"public_key": HASH}],
    }),
    ("m.room.member", BOB, {"membership": "join", "displayname": "d", "avatar_url": "mxc://a/b"}),
    ("m.room.member", f"@x:{EVIL}", {
        "membership": "join", "join_authorised_via_users_server": ALICE, "reason": "r",
    }),
    ("m.room.member", f"@y:{GOOD}", {
        "membership": "invite",
        "third_party_invite": {
            "display_name": "d",
            "signed": {"mxid": f"@y:{GOOD}", "token": "token", "signatures": {EVIL: {"ed25519:0": HASH}}},
        },
    }),
    ("m.room.member", f"@z:{GOOD}", {"membership": "ban"}),
    ("m.room.create", "", {"room_version": "12", "additional_creators": [BOB], "type": "m.space"}),
    ("m.room.tombstone", "", {"body": "b", "replacement_room": f"!a:{GOOD}"}),
    ("m.room.pinned_events", "", {"pinned": ["$a"]}),
    ("m.room.policy", "", {"via": EVIL, "public_keys": {"ed25519": HASH}}),
    ("m.space.child", f"!a:{GOOD}", {"via": [GOOD], "order": "a", "suggested": True}),
    ("m.space.parent", f"!a:{GOOD}", {"via": [GOOD], "canonical": True}),
    ("io.cis.agent.registered", "agent", {"agent_id": "agent", "capabilities": ["x"], "status": "online"}),
)  # fmt: skip
"""Type, state key and content."""


def fitting(place: str, room_id: str, event_id: str) -> str:
    """Return a valid value for a path parameter."""
    named = {
        "roomid": room_id, "eventid": event_id, "userid": BOB, "servername": GOOD, "version": "v3",
    }  # fmt: skip
    return named.get(place.replace("_", "").lower(), "abc")


def filled(template: str, room_id: str, event_id: str) -> str:
    """Return the path with valid parameters."""
    return PLACE.sub(lambda place: quote(fitting(place[1], room_id, event_id), safe=""), template)


def query(version: str, event_id: str) -> str:
    """Return all parameters that any endpoint uses."""
    return (
        f"ver={version}&event_id={quote(event_id)}&v={quote(event_id)}&limit=5&ts=5&dir=f&user_id={quote(ALICE)}"
        f"&room_alias=%23a%3A{GOOD}&field=displayname&omit_members=true&width=5&height=5"
    )


def edus(room_id: str, event_id: str) -> list[dict[str, Any]]:
    """Return one EDU of each type."""
    receipt = {"data": {"ts": 5, "thread_id": event_id}, "event_ids": [event_id]}
    contents: dict[str, dict[str, Any]] = {
        "m.typing": {"room_id": room_id, "user_id": BOB, "typing": True},
        "m.receipt": {room_id: {"m.read": {BOB: receipt}}},
        "m.presence": {
            "push": [{"user_id": BOB, "presence": "online", "last_active_ago": 5, "status_msg": "x"}]
        },
        "m.direct_to_device": {
            "sender": BOB, "type": "m.test", "message_id": "1", "messages": {ALICE: {"*": {"a": 1}}},
        },
        "m.device_list_update": {
            "user_id": BOB, "device_id": "D", "stream_id": 5, "prev_id": [4], "deleted": False,
            "device_display_name": "x", "keys": {"user_id": BOB, "device_id": "D", "keys": {}},
        },
        "m.signing_key_update": {"user_id": BOB, "master_key": {"user_id": BOB}, "self_signing_key": {}},
        "io.cis.agent.heartbeat": {"agent_id": "a", "status": "online"},
    }  # fmt: skip
    return [{"edu_type": name, "content": content} for name, content in contents.items()]


def body(template: str, version: str, room_id: str, event_id: str, event: Mapping[str, Any]) -> Any:
    """Return a valid body for the path, or an arbitrary one for an unknown path."""
    stripped = [{"type": "m.room.create", "state_key": "", "sender": ALICE, "content": {}}, dict(event)]
    bodies: dict[str, Any] = {
        "/get_missing_events/": {
            "earliest_events": [event_id], "latest_events": [event_id], "limit": 5, "min_depth": 0,
        },
        "v2/invite/": {"room_version": version, "event": dict(event), "invite_room_state": stripped},
        "/send_": dict(event),
        "/publicRooms": {
            "limit": 5, "since": "a", "filter": {"generic_search_term": "a", "room_types": ["a"]},
        },
        "/key/v2/query": {
            "server_keys": {name: {"ed25519:a": {"minimum_valid_until_ts": 5}} for name in (EVIL, GOOD)}
        },
        "/user/keys/query": {"device_keys": {ALICE: ["D"]}},
        "/user/keys/claim": {"one_time_keys": {ALICE: {"D": "signed_curve25519"}}},
        "/send/": {
            "origin": EVIL, "origin_server_ts": 5, "pdus": [dict(event)], "edus": edus(room_id, event_id),
        },
    }  # fmt: skip
    return next((body for part, body in bodies.items() if part in template), {"a": ["b", {"c": 1}]})
