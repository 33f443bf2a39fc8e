"""An event of ours as a published node gets it."""

from nacl.signing import SigningKey

from bridge.address import AgentAddress
from bridge.connectors.cis import content, envelope, timestamps
from bridge.connectors.cis.envelope import Envelope
from bridge.connectors.cis.events import AnyEvent
from bridge.connectors.cis.profile import PeerProfile
from bridge.connectors.cis.published_signature import signed
from bridge.connectors.cis.rooms import room_for, room_id
from bridge.connectors.cis.settings import CisSettings
from bridge.ghost import NoGhost, user_id


def written(
    event: AnyEvent,
    event_id: str,
    speaker: AgentAddress,
    namespace: str,
    settings: CisSettings,
    key: SigningKey,
) -> bytes:
    """ "Sent with the signing form". The room is the one in which it would be said."""
    ghost = user_id(speaker)
    made = Envelope(
        event_id=event_id,
        room_id=room_id(room_for(event, settings.node_id, namespace)),
        sender=settings.node_user if isinstance(ghost, NoGhost) else ghost,
        type=event.TYPE,
        content=content.render(event, PeerProfile.CIS_1_1),
        origin_server_ts=timestamps.milliseconds(event.timestamp),
        origin=settings.node_id,
    )
    return envelope.write(signed(made, settings.node_id, key))
