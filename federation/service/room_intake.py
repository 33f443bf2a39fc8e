"""Takes a batch of events into a room's draft: each is judged where it stands."""

from collections.abc import Mapping

from federation.auth_rules import CREATE
from federation.event_graph import in_order
from federation.pdu import EventId, StateKey
from federation.receipt import Dropped, Genuine, Receipt, needed_for_step_4
from federation.service.gap_filling import RoomBatch
from federation.service.room_draft import RoomDraft
from federation.service.room_ports import StateIds


def must_have_place(batch: RoomBatch) -> set[EventId]:
    """What `take_in` looks up first: the events themselves and those that they follow."""
    followed = {prev for genuine in batch.events.values() for prev in genuine.pdu.prev_events}
    return followed | batch.events.keys()


async def take_in(draft: RoomDraft, batch: RoomBatch, *, in_timeline: bool = True) -> dict[EventId, Receipt]:
    """What became of each event. With `in_timeline` false they are history that is told to nobody."""
    await draft.load(must_have_place(batch), placed=True)
    await take_outliers(draft, batch.outliers)
    await draft.load({one for genuine in batch.events.values() for one in genuine.pdu.auth_events})
    results: dict[EventId, Receipt] = {}
    for event_id in in_order({one: genuine.pdu.prev_events for one, genuine in batch.events.items()}):
        results[event_id] = await _take_one(draft, batch, batch.events[event_id], in_timeline)
    return results


async def take_outliers(draft: RoomDraft, outliers: Mapping[EventId, Genuine]) -> None:
    """Those on which others rest come first."""
    await draft.load(outliers)
    rests_on = {one: needed_for_step_4(genuine.pdu, draft.version) for one, genuine in outliers.items()}
    await draft.load({needed for ids in rests_on.values() for needed in ids})
    for event_id in in_order(rests_on):
        await draft.take_outlier(outliers[event_id])


async def _take_one(draft: RoomDraft, batch: RoomBatch, genuine: Genuine, in_timeline: bool) -> Receipt:
    pdu = genuine.pdu
    if draft.has_place(pdu.event_id):
        return draft.known[pdu.event_id].receipt
    current = await draft.current()
    if pdu.type == "m.room.create" and current.state.get(CREATE, pdu.event_id) != pdu.event_id:
        return Dropped("the room has another create event")
    for prev_event in pdu.prev_events:
        if not draft.has_place(prev_event):
            ids = batch.states.get(prev_event)
            if ids is None or not await _place_behind_gap(draft, batch, prev_event, ids, in_timeline):
                return Dropped(f"{prev_event}, which it follows, is not to be had")
    before = await draft.state_before(pdu.prev_events)
    verdict = await draft.judge(genuine, before, current=current if in_timeline else None)
    if not isinstance(verdict, Dropped):
        await draft.place(pdu, verdict, before, in_timeline=in_timeline)
    return verdict


async def _place_behind_gap(
    draft: RoomDraft, batch: RoomBatch, event_id: EventId, ids: StateIds, in_timeline: bool
) -> bool:
    """Give an event its place of which another server has told the state before it."""
    genuine = batch.outliers.get(event_id) or batch.events.get(event_id)
    if genuine is None:
        await draft.load([event_id])
        known = draft.known.get(event_id)
        if known is None or known.pdu.room_id != draft.room_id:
            return False
        genuine = Genuine(known.pdu)
    state = await state_of(draft, ids)
    if CREATE not in state:
        return False
    # When its own server sends it later it has its place already: so this is when others hear of it. To what
    # lies before the history that is known here it does not matter what the rules say today.
    is_news = in_timeline and genuine.pdu.depth >= batch.first_depth
    current = await draft.current()
    before = await draft.group_of(state, current)
    verdict = await draft.judge(genuine, before, current=current if is_news else None)
    if isinstance(verdict, Dropped):
        return False
    await draft.place(genuine.pdu, verdict, before, in_timeline=is_news)
    return True


async def state_of(draft: RoomDraft, ids: StateIds) -> dict[StateKey, EventId]:
    """The state that another server names, as far as its events are known, of this room and not rejected."""
    await draft.load(ids.pdu_ids)
    state: dict[StateKey, EventId] = {}
    for event_id in ids.pdu_ids:
        known = draft.known.get(event_id)
        if known is None or known.verdict == "rejected" or known.pdu.room_id != draft.room_id:
            continue
        if known.pdu.key is not None:
            state.setdefault(known.pdu.key, event_id)
    return state
