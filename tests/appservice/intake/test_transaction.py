"""Parsing transactions."""

import json
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appservice.intake.transaction import DeviceLists, Transaction, read, transaction_id_problem
from federation.matrix.errors import MatrixError
from federation.transactions.edu_dispatcher import TypingUsers
from federation.transactions.edus import Receipt, ToDevice, UserPresence
from tests.appservice.events import ALICE, GHOST, ROOM, message, transaction

TYPING = {"type": "m.typing", "room_id": ROOM, "content": {"user_ids": [ALICE, 7, "bob"]}}
RECEIPT = {
    "type": "m.receipt",
    "room_id": ROOM,
    "content": {
        "$1": {"m.read": {ALICE: {"ts": 5, "thread_id": "main"}, "bob": {"ts": 5}}},
        "$2": {"m.read.private": {ALICE: {"ts": 5}}, "m.read": {ALICE: {"ts": -1}}},
    },
}
PRESENCE = {
    "type": "m.presence",
    "sender": ALICE,
    "content": {"presence": "online", "currently_active": True, "last_active_ago": 3},
}
DEVICE = {"type": "m.dummy", "sender": ALICE, "to_user_id": GHOST, "to_device_id": "D", "content": {"a": 1}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def test_events_keep_their_order() -> None:
    """Invalid ones are skipped with a reason."""
    found = read(transaction(message("$1"), None, message("$2", content=7), {}, message("$3")))
    assert [received.event.event_id for received in found.events] == ["$1", "$3"]
    assert len(found.skipped) == 3


def test_empty_transactions() -> None:
    """Also without `events`."""
    assert read(b"{}") == read(b'{"events":[]}') == Transaction()


@pytest.mark.parametrize(
    ("body", "errcode"),
    [
        (b"", "M_NOT_JSON"),
        (b"{", "M_NOT_JSON"),
        (b'{"events":["\xff"]}', "M_NOT_JSON"),
        (b"[" * 5_000 + b"]" * 5_000, "M_NOT_JSON"),
        (b"[]", "M_BAD_JSON"),
        (b"null", "M_BAD_JSON"),
        (b'{"events":{}}', "M_BAD_JSON"),
        (b'{"events":null}', "M_BAD_JSON"),
    ],
)
def test_invalid_body_is_refused(body: bytes, errcode: str) -> None:
    """It contains nothing to receive."""
    with pytest.raises(MatrixError) as refused:
        read(body)
    assert (refused.value.errcode, refused.value.status) == (errcode, 400)


@pytest.mark.parametrize("name", ["ephemeral", "de.sorunome.msc2409.ephemeral"])
def test_ephemeral_events_under_either_name(name: str) -> None:
    """Typing, receipts, presence. Private receipts are skipped."""
    found = read(transaction(**{name: [TYPING, RECEIPT, PRESENCE, 7, {"type": "m.typing"}]}))
    assert found.ephemeral == (
        TypingUsers(ROOM, (ALICE,)),
        Receipt(ROOM, ALICE, "$1", 5, "main"),
        UserPresence(ALICE, "online", 3, currently_active=True),
    )
    assert found.skipped == ()


def test_both_names_are_read_once() -> None:
    """Synapse sends every ephemeral event under both names."""
    both = {"ephemeral": [TYPING], "de.sorunome.msc2409.ephemeral": [TYPING]}
    device = {"to_device": [DEVICE], "de.sorunome.msc2409.to_device": [DEVICE]}
    found = read(transaction(**both, **device))
    assert len(found.ephemeral) == len(found.to_device) == 1


@pytest.mark.parametrize("name", ["to_device", "de.sorunome.msc2409.to_device"])
def test_to_device_messages(name: str) -> None:
    """One device each; skipped ones are reported, because they must not be lost."""
    huge = {**DEVICE, "content": {"a": "x" * 70_000}}
    wrong: list[Any] = [
        huge,
        {**DEVICE, "to_user_id": 7},
        {**DEVICE, "to_device_id": "\0"},
        7,
        {**DEVICE, "content": 7},
    ]
    found = read(transaction(**{name: [DEVICE, *wrong]}))
    assert found.to_device == (ToDevice(ALICE, "m.dummy", "", {GHOST: {"D": {"a": 1}}}),)
    assert len(found.skipped) == 5


def test_device_lists_and_key_counts() -> None:
    """Also under the names of the proposal, one of them misspelt."""
    lists = {"changed": [ALICE, 7], "left": "x"}
    counts = {GHOST: {"D": {"signed_curve25519": 3, "x": -1}, "E": 7}, "bob": {}}
    for name in ("device_one_time_keys_count", "device_one_time_key_counts"):
        found = read(transaction(**{"org.matrix.msc3202.device_lists": lists, f"org.matrix.msc3202.{name}": counts}))
        assert found.device_lists == DeviceLists((ALICE,), ())
        assert found.one_time_keys == {GHOST: {"D": {"signed_curve25519": 3}}}


def test_digest_ignores_volatile_fields() -> None:
    """The age of events and ephemeral data."""
    first = read(transaction(message("$1"), message("$2"), ephemeral=[TYPING]))
    again = read(transaction(message("$1", age=99, unsigned={"age": 99}), message("$2")))
    assert first.digest == again.digest
    assert len(first.digest) == 32
    assert first.digest != read(transaction(message("$2"), message("$1"))).digest != read(b"{}").digest


def test_ephemeral_entries_are_limited() -> None:
    """A flood has no effect."""
    receipts = {**RECEIPT, "content": {"$1": {"m.read": {f"@{n}:a": {"ts": 1} for n in range(1_500)}}}}
    found = read(transaction(ephemeral=[receipts]))
    assert len(found.ephemeral) == 1_000
    assert len(read(transaction(ephemeral=[TYPING] * 1_500)).ephemeral) == 1_000


def test_reasons_are_limited() -> None:
    """Each once, and only the first ones, so that they cannot flood a log."""
    assert len(read(transaction(*[None] * 100)).skipped) == 1


@given(st.dictionaries(
    st.sampled_from(["events", "ephemeral", "to_device", "device_lists", "device_one_time_keys_count"]), JSON
))  # fmt: skip
def test_any_body(body: dict[str, Any]) -> None:
    """It is parsed or refused."""
    is_list = isinstance(body.get("events", []), list)
    with nullcontext() if is_list else pytest.raises(MatrixError):
        assert isinstance(read(json.dumps(body).encode()), Transaction)


@given(JSON, st.sampled_from(["m.typing", "m.receipt", "m.presence"]))
def test_any_ephemeral_content(content: Any, type_: str) -> None:
    """Invalid parts are skipped."""
    one = {"type": type_, "room_id": ROOM, "sender": ALICE, "content": content}
    assert len(read(json.dumps({"ephemeral": [one], "to_device": [one]}).encode()).to_device) == 0


def test_transaction_id_is_short_text() -> None:
    """It is stored."""
    assert transaction_id_problem("1") is None
    for wrong in ("x" * 256, "\0", "\ud800"):
        assert transaction_id_problem(wrong) is not None
