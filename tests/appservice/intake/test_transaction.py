"""What has happened since the last one."""

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
DEVICE = {
    "type": "m.dummy",
    "sender": ALICE,
    "to_user_id": GHOST,
    "to_device_id": "D",
    "content": {"a": 1},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def test_events_are_in_their_order() -> None:
    """What cannot be read is left out, with a reason, and harms nobody else."""
    found = read(transaction(message("$1"), None, message("$2", content=7), {}, message("$3")))
    assert [received.event.event_id for received in found.events] == ["$1", "$3"]
    assert len(found.skipped) == 3


def test_an_empty_one_is_one() -> None:
    """Also without a list of events."""
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
def test_what_is_no_transaction_is_refused(body: bytes, errcode: str) -> None:
    """There is nothing in it that could be taken in."""
    with pytest.raises(MatrixError) as refused:
        read(body)
    assert (refused.value.errcode, refused.value.status) == (errcode, 400)


@pytest.mark.parametrize("name", ["ephemeral", "de.sorunome.msc2409.ephemeral"])
def test_ephemeral_events_are_read_under_either_name(name: str) -> None:
    """Typing, receipts, presence. What others read in private is nobody's business."""
    found = read(transaction(**{name: [TYPING, RECEIPT, PRESENCE, 7, {"type": "m.typing"}]}))
    assert found.ephemeral == (
        TypingUsers(ROOM, (ALICE,)),
        Receipt(ROOM, ALICE, "$1", 5, "main"),
        UserPresence(ALICE, "online", 3, currently_active=True),
    )
    assert found.skipped == ()


def test_what_comes_under_both_names_is_read_once() -> None:
    """Synapse sends every ephemeral event twice to whoever asked under both."""
    both = {"ephemeral": [TYPING], "de.sorunome.msc2409.ephemeral": [TYPING]}
    device = {"to_device": [DEVICE], "de.sorunome.msc2409.to_device": [DEVICE]}
    found = read(transaction(**both, **device))
    assert len(found.ephemeral) == len(found.to_device) == 1


@pytest.mark.parametrize("name", ["to_device", "de.sorunome.msc2409.to_device"])
def test_messages_to_devices(name: str) -> None:
    """Each for one device; they must not be lost, so that it is said what was left out."""
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


def test_device_lists_and_counts_of_keys() -> None:
    """Under the names of their proposal, one of them misspelt."""
    lists = {"changed": [ALICE, 7], "left": "x"}
    counts = {GHOST: {"D": {"signed_curve25519": 3, "x": -1}, "E": 7}, "bob": {}}
    for name in ("device_one_time_keys_count", "device_one_time_key_counts"):
        found = read(
            transaction(**{"org.matrix.msc3202.device_lists": lists, f"org.matrix.msc3202.{name}": counts})
        )
        assert found.device_lists == DeviceLists((ALICE,), ())
        assert found.one_time_keys == {GHOST: {"D": {"signed_curve25519": 3}}}


def test_a_repetition_is_the_same_transaction() -> None:
    """However much older its events are, and without what is worth something for a moment."""
    first = read(transaction(message("$1"), message("$2"), ephemeral=[TYPING]))
    again = read(transaction(message("$1", age=99, unsigned={"age": 99}), message("$2")))
    assert first.digest == again.digest
    assert len(first.digest) == 32
    assert first.digest != read(transaction(message("$2"), message("$1"))).digest != read(b"{}").digest


def test_what_is_worth_little_is_limited() -> None:
    """Who sends a flood of it makes no flood here."""
    receipts = {**RECEIPT, "content": {"$1": {"m.read": {f"@{n}:a": {"ts": 1} for n in range(1_500)}}}}
    found = read(transaction(ephemeral=[receipts]))
    assert len(found.ephemeral) == 1_000
    assert len(read(transaction(ephemeral=[TYPING] * 1_500)).ephemeral) == 1_000


def test_reasons_are_few() -> None:
    """Each once, and only the first ones: nobody fills a log with them."""
    assert len(read(transaction(*[None] * 100)).skipped) == 1


@given(st.dictionaries(
    st.sampled_from(["events", "ephemeral", "to_device", "device_lists", "device_one_time_keys_count"]), JSON
))  # fmt: skip
def test_anything_may_come(body: dict[str, Any]) -> None:
    """It is a transaction, or it is refused."""
    is_list = isinstance(body.get("events", []), list)
    with nullcontext() if is_list else pytest.raises(MatrixError):
        assert isinstance(read(json.dumps(body).encode()), Transaction)


@given(JSON, st.sampled_from(["m.typing", "m.receipt", "m.presence"]))
def test_any_content_may_come(content: Any, type_: str) -> None:
    """What cannot be read of an ephemeral event is left out."""
    one = {"type": type_, "room_id": ROOM, "sender": ALICE, "content": content}
    assert len(read(json.dumps({"ephemeral": [one], "to_device": [one]}).encode()).to_device) == 0


def test_the_id_of_a_transaction_is_short_text() -> None:
    """It is kept."""
    assert transaction_id_problem("1") is None
    for wrong in ("x" * 256, "\0", "\ud800"):
        assert transaction_id_problem(wrong) is not None
