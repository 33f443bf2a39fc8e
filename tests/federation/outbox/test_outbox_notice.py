"""Notices between processes."""

from federation.outbox.messages import Heard, Queued, Timer
from federation.outbox.outbox import MOST_BYTES, notices, read_notice
from federation.outbox.send_queue import EduRef, PduRef

PEER = "peer.test"


def test_queued_items_make_one_notice() -> None:
    """Ephemeral EDUs are left out: only this process has their content."""
    queued = [
        Queued((PduRef(1, "!ä:a.example"),), (EduRef(1, ephemeral=True),)),
        Queued((PduRef(2, "!b:a.example"),), (EduRef(3),)),
    ]
    (text,) = notices(PEER, queued)
    assert read_notice(text) == (
        PEER,
        (Queued((PduRef(1, "!ä:a.example"), PduRef(2, "!b:a.example")), (EduRef(3),)),),
    )


def test_requests_from_a_server_make_one_notice() -> None:
    """However many there were."""
    (text,) = notices(PEER, [Heard(), Timer(), Heard()])
    assert read_notice(text) == (PEER, (Heard(),))
    assert len(list(notices(PEER, [Heard(), Queued((PduRef(1, "!a:a.example"),))]))) == 2


def test_ephemeral_edus_alone_make_no_notice() -> None:
    """Their content is in this process only."""
    assert list(notices(PEER, [])) == []
    assert list(notices(PEER, [Queued(edus=(EduRef(1, ephemeral=True),))])) == []


def test_a_large_notice_is_divided() -> None:
    """A Postgres notification has less than 8,000 bytes."""
    pdus = tuple(PduRef(number, "!" + "r" * 200 + ":a.example") for number in range(200))
    edus = tuple(EduRef(number) for number in range(300))
    texts = list(notices(PEER, [Queued(pdus, edus)]))
    assert len(texts) > 1
    assert all(len(text) <= MOST_BYTES for text in texts)
    read = [one for text in texts for one in read_notice(text).messages if isinstance(one, Queued)]
    assert sorted(pdu.position for one in read for pdu in one.pdus) == list(range(200))
    assert sorted(edu.position for one in read for edu in one.edus) == list(range(300))
