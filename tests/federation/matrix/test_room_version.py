"""Room versions as records of switches."""

import ast
import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

import federation
from federation.matrix.room_version import (
    DEFAULT_ROOM_VERSION,
    ROOM_VERSIONS,
    RoomVersion,
    room_version,
    version_of_create_event,
)

CHANGES = {
    "4": {"event_id_is_url_safe"},
    "5": {"enforces_key_validity"},
    "6": {"strict_canonical_json", "aliases_have_their_own_rule", "checks_notification_levels", "redaction_content"},
    "7": {"knocking"},
    "8": {"restricted_joins", "redaction_content"},
    "9": {"redaction_content"},
    "10": {"integer_power_levels", "knock_restricted_joins"},
    "11": {
        "strict_byte_limits",
        "creator_in_content",
        "redacts_in_content",
        "redaction_top_level",
        "redaction_content",
        "redaction_keeps_create",
        "redaction_keeps_signed_third_party_invite",
    },
    "12": {"create_event_is_room_id", "creators_have_infinite_power", "state_resolution_starts_empty"},
}


@pytest.mark.parametrize("identifier", CHANGES)
def test_the_changes_of_each_version(identifier: str) -> None:
    """Each version changes what its page of the specification says, and nothing else."""
    version, before = ROOM_VERSIONS[identifier], ROOM_VERSIONS[str(int(identifier) - 1)]
    changed = {f.name for f in fields(RoomVersion) if getattr(version, f.name) != getattr(before, f.name)}
    assert changed == CHANGES[identifier] | {"id"}


def test_supported_versions() -> None:
    """3 to 12, with 12 as default."""
    assert list(ROOM_VERSIONS) == [str(number) for number in range(3, 13)]
    assert DEFAULT_ROOM_VERSION.id == "12"
    assert room_version("12") is DEFAULT_ROOM_VERSION
    unknown: object
    for unknown in ("1", "2", "13", "", "org.matrix.hydra.11", 12, None, ["12"], {}):
        assert room_version(unknown) is None


def test_a_create_event_without_a_version_is_of_version_1() -> None:
    """room_version "Defaults to "1" if the key does not exist"."""
    assert version_of_create_event({}) == "1"
    assert version_of_create_event({"room_version": "11"}) == "11"


def test_a_version_is_immutable() -> None:
    """Rooms share the record."""
    with pytest.raises(FrozenInstanceError):
        DEFAULT_ROOM_VERSION.id = "13"  # type: ignore[misc]  # the test expects the error
    with pytest.raises(TypeError):
        DEFAULT_ROOM_VERSION.redaction_content["m.room.topic"] = frozenset()  # type: ignore[index]  # the same


def test_no_code_compares_version_numbers() -> None:
    """Code reads switches instead."""
    offenders = [
        f"{path.name}:{node.lineno}"
        for path in Path(federation.__path__[0]).rglob("*.py")
        if "room_version" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare) and re.search(r"version(\.id)?\b.* [<>]=? ", ast.unparse(node))
    ]
    assert offenders == []
