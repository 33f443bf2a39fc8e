"""Texts that are too long for an event."""

import hashlib
from typing import Any

import pytest

from bridge.connectors.cis.protocol import content, large_output
from bridge.connectors.cis.protocol.events import AnyEvent, TaskRequest, TaskResponse
from bridge.connectors.cis.protocol.large_output import KEY, SHORT, LongText, StoredText
from bridge.connectors.cis.protocol.refusals import TooLarge
from bridge.peers.peer import PeerProfile
from federation.matrix.canonical_json import encode
from federation.media.media import Mxc
from tests.bridge.connectors.cis.event_builders import heartbeat, message, request, response

OURS = Mxc("kitchen.local", "abc")


def stored(text: str) -> StoredText:
    return StoredText(OURS, len(text.encode()), hashlib.sha256(text.encode()).hexdigest())


def sent(event: AnyEvent, profile: PeerProfile = PeerProfile.MATRIX) -> AnyEvent:
    """Return the event as it arrives, after all long texts have been stored."""
    texts = large_output.texts_to_store(event, profile)
    assert not isinstance(texts, TooLarge)
    if texts:
        event = large_output.shorten(event, {one.name: stored(one.text) for one in texts})
    said = content.render(event, profile)
    assert profile is not PeerProfile.MATRIX or len(encode(said)) <= 60_000
    made = content.read(event.TYPE, said)
    assert made == event
    return event


@pytest.mark.parametrize("event", [heartbeat(), message({"a": 1}), request(), response("x" * 50_000)])
def test_a_small_event_is_sent_unchanged(event: AnyEvent) -> None:
    """Nothing has to be stored."""
    assert large_output.fits(content.render(event, PeerProfile.MATRIX), PeerProfile.MATRIX)
    assert large_output.texts_to_store(event, PeerProfile.MATRIX) == ()


@pytest.mark.parametrize("text", ["x" * 100_000, "ä\n" * 50_000, "\x01" * 70_000, '"\\' * 30_000, "💬" * 20_000])
def test_a_long_output_becomes_media(text: str) -> None:
    """URL, size and SHA-256 are in the metadata; the beginning and the end stay in the event."""
    event = response(text, {"tokens_used": 5, "cost": 0.5})
    assert not large_output.fits(content.render(event, PeerProfile.MATRIX), PeerProfile.MATRIX)
    assert large_output.texts_to_store(event, PeerProfile.MATRIX) == (LongText("output", text),)
    arrived = sent(event)
    assert isinstance(arrived, TaskResponse)
    assert arrived.result.output[:10] == text[:10]
    assert arrived.result.output[-10:] == text[-10:]
    assert len(arrived.result.output.encode()) <= SHORT + 100
    assert arrived.result.metadata == {
        "tokens_used": 5,
        "cost": 0.5,
        KEY: {"output": {"url": "mxc://kitchen.local/abc", "size": len(text.encode()), "sha256": stored(text).sha256}},
    }
    assert large_output.stored_of(arrived, "kitchen.local") == {"output": stored(text)}


def test_the_longest_texts_are_stored_first() -> None:
    """Until the event fits."""
    event = request(prompt="p" * 30_000, context="c" * 50_000, system_prompt="s" * 20_000)
    texts = large_output.texts_to_store(event, PeerProfile.MATRIX)
    assert texts == (LongText("context", "c" * 50_000),)
    event = request(prompt="p" * 59_000, context="c" * 500_000, system_prompt="s" * 20_000)
    arrived = sent(event)
    assert isinstance(arrived, TaskRequest)
    assert set(large_output.stored_of(arrived, "kitchen.local")) == {"context", "prompt"}
    assert arrived.task.system_prompt == "s" * 20_000


def test_published_nodes_accept_larger_events() -> None:
    """Up to two megabytes; they could not fetch media."""
    event = response("x" * 1_000_000)
    assert large_output.texts_to_store(event, PeerProfile.CIS_1_1) == ()
    long = response("x" * 3_000_000)
    assert large_output.texts_to_store(long, PeerProfile.CIS_1_1) == (LongText("output", "x" * 3_000_000),)
    sent(long, PeerProfile.CIS_1_1)


def test_an_event_that_cannot_be_shortened_is_too_large() -> None:
    """A message payload or metadata would be useless if shortened."""
    for event in (message("x" * 70_000), response("x", {"a": "x" * 70_000}), request(metadata={"a": "x" * 70_000})):
        assert isinstance(large_output.texts_to_store(event, PeerProfile.MATRIX), TooLarge)


@pytest.mark.parametrize(
    "change",
    [
        {"url": "https://kitchen.local/abc"},
        {"url": "mxc://third.local/abc"},
        {"url": "mxc://kitchen.local/../abc"},
        {"url": None},
        {"size": -1},
        {"size": 1.0},
        {"size": True},
        {"size": 2**53},
        {"sha256": "ABC"},
        {"sha256": None},
        {"sha256": "0" * 65},
    ],
)
def test_only_references_to_the_senders_server_are_read(change: dict[str, Any]) -> None:
    """And only those with a size and a hash that can be verified."""
    good = {"url": "mxc://kitchen.local/abc", "size": 5, "sha256": "0" * 64}
    assert large_output.stored_of(response("x", {KEY: {"output": good}}), "kitchen.local") != {}
    assert large_output.stored_of(response("x", {KEY: {"output": {**good, **change}}}), "kitchen.local") == {}


def test_malformed_references_are_ignored() -> None:
    """Any program may write metadata."""
    for said in (None, 5, [], {"prompt": {}}, {"output": None}, {"output": []}):
        assert large_output.stored_of(response("x", {KEY: said}), "kitchen.local") == {}
    assert large_output.stored_of(heartbeat(), "kitchen.local") == {}
