"""Verifying many events at a time."""

from collections.abc import Iterable, Mapping

from federation.events import Malformed
from federation.events.received import Dropped
from federation.keys.server_keys import KeyNeed
from federation.matrix.signatures import VerifyKey
from federation.rooms.receive_checks import VerifiedEvent
from federation.rooms.verify_events import EventVerifier
from tests.support.graph import NOW, KnownKeys
from tests.support.rooms import ALICE, BOB, public_room


class RecordingKeys(KnownKeys):
    """Keys that record which ones were needed."""

    def __init__(self) -> None:
        super().__init__()
        self.needs: list[KeyNeed] = []

    async def keys_for(self, needs: Iterable[KeyNeed]) -> Mapping[str, Mapping[str, VerifyKey]]:
        wanted = list(needs)
        self.needs += wanted
        return await super().keys_for(wanted)


async def test_all_keys_are_fetched_together_and_each_once() -> None:
    """For the latest time at which it must be valid."""
    room = public_room("12", BOB)
    said = [room.say(ALICE if number % 3 else BOB) for number in range(120)]
    keys = RecordingKeys()
    verified = await EventVerifier(keys, lambda: NOW).verify((pdu.event, room.version) for pdu in said)
    assert [result for _, result in verified] == [VerifiedEvent(pdu) for pdu in said]
    latest = {pdu.sender: pdu.origin_server_ts for pdu in said}
    assert sorted(keys.needs, key=lambda need: need.server) == [
        KeyNeed("a.example", "ed25519:test", latest[ALICE]),
        KeyNeed("b.example", "ed25519:test", latest[BOB]),
    ]


async def test_results_are_in_the_order_of_the_events() -> None:
    """An event whose key is unavailable counts as unsigned."""
    room = public_room("12", BOB)
    good, other = room.say(ALICE), room.say(BOB)
    keys = KnownKeys()
    del keys.keys["b.example"]
    verified = await EventVerifier(keys, lambda: NOW).verify(
        [(5, room.version), (other.event, room.version), (good.event, room.version)]
    )
    (first, dropped), (second, unknown), (_, event) = verified
    assert isinstance(first, Malformed)
    assert isinstance(dropped, Dropped)
    assert second == other
    assert unknown == Dropped("step 2, signature checks: no key of b.example is available")
    assert event == VerifiedEvent(good)
