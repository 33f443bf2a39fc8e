"""The numbers of the rules, and that each rule refuses a case."""

import importlib
from pathlib import Path

import pytest

from federation.auth_rules import Refused
from federation.auth_rules.rules import REFUSALS, refuse
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import refusals

NUMBERS = {
    # For each version with different numbers, a few rules of every group, as on its page.
    "3": {
        "create.creator": "1.4", "auth_events.create": "2.4", "auth_events.room_id": "2.5", "federate": "3",
        "aliases.domain": "4.2", "member.properties": "5.1", "join.sender": "5.2.2",
        "join.otherwise": "5.2.6",
        "third_party.banned": "5.3.1.1", "third_party.otherwise": "5.3.1.8", "invite.otherwise": "5.3.5",
        "leave.self": "5.4.1", "leave.otherwise": "5.4.5", "ban.otherwise": "5.5.3",
        "member.unknown": "5.6",
        "sender_joined": "6", "third_party_invite.level": "7.1", "required_power": "8",
        "state_key_of_another": "9",
        "levels.users": "10.1", "levels.property.current": "10.3.1", "levels.property.new": "10.3.2",
        "levels.event.current": "10.4.1", "levels.event.new": "10.5.1", "levels.user.current": "10.6.1",
        "levels.user.new": "10.7.1",
    },
    "6": {
        "federate": "3", "member.properties": "4.1", "join.sender": "4.2.2", "join.otherwise": "4.2.6",
        "member.unknown": "4.6", "sender_joined": "5", "third_party_invite.level": "6.1",
        "required_power": "7",
        "state_key_of_another": "8", "levels.users": "9.1", "levels.user.new": "9.7.1",
    },
    "7": {
        "ban.otherwise": "4.5.3", "knock.join_rule": "4.6.1", "knock.otherwise": "4.6.4",
        "member.unknown": "4.7",
    },
    "8": {
        "member.authoriser_signature": "4.2.1", "join.sender": "4.3.2", "join.authoriser": "4.3.5.2",
        "join.otherwise": "4.3.7", "third_party.mxid": "4.4.1.4", "invite.otherwise": "4.4.5",
        "leave.self": "4.5.1",
        "ban.sender": "4.6.1", "knock.sender": "4.7.2", "member.unknown": "4.8", "levels.user.new": "9.7.1",
    },
    "10": {
        "levels.integers": "9.1", "levels.maps": "9.2", "levels.users": "9.3",
        "levels.property.new": "9.5.2",
        "levels.event.current": "9.6.1", "levels.event.new": "9.7.1", "levels.user.current": "9.8.1",
        "levels.user.new": "9.9.1",
    },
    "11": {"create.room_id_domain": "1.2", "create.room_version": "1.3", "join.authoriser": "4.3.5.2"},
    "12": {
        "create.prev_events": "1.1", "create.room_id": "1.2", "create.room_version": "1.3",
        "create.additional_creators": "1.4", "room_id": "2", "auth_events.duplicate": "3.1",
        "auth_events.unexpected": "3.2", "auth_events.rejected": "3.3", "auth_events.room_id": "3.4",
        "federate": "4",
        "member.properties": "5.1", "member.authoriser_signature": "5.2.1", "join.otherwise": "5.3.7",
        "third_party.token": "5.4.1.5", "invite.sender": "5.4.2", "leave.unban": "5.5.3",
        "ban.otherwise": "5.6.3",
        "knock.otherwise": "5.7.4", "member.unknown": "5.8", "sender_joined": "6",
        "third_party_invite.level": "7.1",
        "required_power": "8", "state_key_of_another": "9", "levels.integers": "10.1",
        "levels.creators": "10.4",
        "levels.property.current": "10.6.1", "levels.event.new": "10.8.1", "levels.user.new": "10.10.1",
    },
}  # fmt: skip


@pytest.mark.parametrize("version", NUMBERS)
def test_numbers(version: str) -> None:
    """A rule has the number on the page of the version."""
    assert {key: REFUSALS[version][key].rule for key in NUMBERS[version]} == NUMBERS[version]


def test_differences_between_versions() -> None:
    """The lists differ only in the rules that a version adds or removes."""
    having = {version: set(rules) for version, rules in REFUSALS.items()}
    assert having["3"] == having["4"] == having["5"]
    assert having["5"] - having["6"] == {"aliases.state_key", "aliases.domain"}
    assert having["7"] - having["6"] == {"knock.join_rule", "knock.sender", "knock.otherwise"}
    assert having["8"] - having["7"] == {"member.authoriser_signature", "join.authoriser"}
    assert having["9"] == having["8"]
    assert having["10"] - having["9"] == {"levels.integers", "levels.maps"}
    assert having["10"] - having["11"] == {"create.creator"}
    assert having["12"] - having["11"] == {"create.room_id", "create.additional_creators", "room_id", "levels.creators"}
    assert having["11"] - having["12"] == {"create.room_id_domain", "auth_events.create"}


def test_every_rule_of_every_version_refuses_a_case() -> None:
    """Compares the registered cases with the list of rules."""
    for path in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"tests.federation.auth_rules.{path.stem}")
    exercised = {(version, refusal.key) for version, refusal in refusals()}
    rules = {(version, key) for version, keys in REFUSALS.items() for key in keys}
    assert rules - exercised == set()


def test_a_refusal_has_the_rule_and_the_detail() -> None:
    """For the log."""
    refused = refuse(ROOM_VERSIONS["12"], "join.banned")
    assert str(refused) == "rule 5.3.3: If the sender is banned, reject."
    assert str(refuse(ROOM_VERSIONS["11"], "join.banned")) == "rule 4.3.3: If the sender is banned, reject."
    assert str(refuse(ROOM_VERSIONS["12"], "levels.users", "x")).endswith(" (x)")
    assert isinstance(refused, Refused)
