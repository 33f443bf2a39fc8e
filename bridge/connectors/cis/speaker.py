"""Whether a user may say for an agent what an event says.

A homeserver may have people besides agents. It vouches for what its users say, but not for that a person is
an agent: an agent is spoken for by its own user, `@worker-1:kitchen.local`, and by its node's.
"""

from bridge.connectors.cis.events import AgentEvent
from bridge.connectors.cis.examination import Taken
from bridge.connectors.cis.refusals import Forbidden
from bridge.connectors.cis.sender import ToldGone
from bridge.connectors.cis.settings import NODE_USER
from bridge.ghost import NoGhost, user_id
from federation.identifiers import localpart

NOT_THE_AGENT = Forbidden("The event was not sent by the agent's own user.")


def wrong_speaker(taken: Taken, user: str) -> Forbidden | None:
    """`user` is of the peer's server, which has been checked."""
    if localpart(user) == NODE_USER or isinstance(taken.sender, ToldGone):
        return None
    event = taken.event
    ghost = user_id(event.agent if isinstance(event, AgentEvent) else event.from_agent)
    return None if not isinstance(ghost, NoGhost) and ghost == user else NOT_THE_AGENT
