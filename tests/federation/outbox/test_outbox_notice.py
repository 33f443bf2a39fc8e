"""Notices between processes."""

from federation.outbox.messages import PeerRequest, QueuedItems, Timer
from federation.outbox.outbox import MAX_NOTICE_BYTES, encode_notices, parse_notice
from federation.outbox.send_queue import EduRef, PduRef

PEER = "peer.test"


def test_queued_items_make_one_notice() -> None:
    """Ephemeral EDUs are left out: only this process has their content."""
    queued = [
        QueuedItems((PduRef(1, "!ä:a.example"),), (EduRef(1, ephemeral=True),)),
        QueuedItems((PduRef(2, "!b:a.example"),), (EduRef(3),)),
    ]
    (text,) = encode_notices(PEER, queued)
    assert parse_notice(text) == (
        PEER,
        (QueuedItems((PduRef(1, "!ä:a.example"), PduRef(2, "!b:a.example")), (EduRef(3),)),),
    )


def test_requests_from_a_server_make_one_notice() -> None:
    """However many there were."""
    (text,) = encode_notices(PEER, [PeerRequest(), Timer(), PeerRequest()])
    assert parse_notice(text) == (PEER, (PeerRequest(),))
    assert len(list(encode_notices(PEER, [PeerRequest(), QueuedItems((PduRef(1, "!a:a.example"),))]))) == 2


def test_ephemeral_edus_alone_make_no_notice() -> None:
    """Their content is in this process only."""
    assert list(encode_notices(PEER, [])) == []
    assert list(encode_notices(PEER, [QueuedItems(edus=(EduRef(1, ephemeral=True),))])) == []


def test_a_large_notice_is_divided() -> None:
    """A Postgres notification has less than 8,000 bytes."""
    pdus = tuple(PduRef(number, "!" + "r" * 200 + ":a.example") for number in range(200))
    edus = tuple(EduRef(number) for number in range(300))
    texts = list(encode_notices(PEER, [QueuedItems(pdus, edus)]))
    assert len(texts) > 1
    assert all(len(text) <= MAX_NOTICE_BYTES for text in texts)
    read = [one for text in texts for one in parse_notice(text).messages if isinstance(one, QueuedItems)]
    assert sorted(pdu.position for one in read for pdu in one.pdus) == list(range(200))
    assert sorted(edu.position for one in read for edu in one.edus) == list(range(300))
