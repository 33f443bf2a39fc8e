"""What an event says of an agent, as the routing table takes it."""

from bridge import agent_news
from bridge.connectors.cis import heartbeats
from bridge.connectors.cis.events import AgentEvent, Heartbeat, Registered, StatusUpdate, Unregistered
from bridge.connectors.cis.settings import NAME

NO_REASON = "unregistered"

Said = agent_news.Registered | agent_news.Unregistered | agent_news.StatusSaid | agent_news.Heartbeat


def news_of(event: AgentEvent, *, by_itself: bool) -> Said:
    """`by_itself`: the agents of this peer send heartbeats of their own."""
    match event:
        case Registered():
            return agent_news.Registered(
                event.agent, NAME, event.runtime_type, event.capabilities, event.said_at, by_itself
            )
        case Unregistered():
            return agent_news.Unregistered(event.agent, event.reason or NO_REASON, event.said_at)
        case StatusUpdate():
            return agent_news.StatusSaid(event.agent, event.status, event.current_task, event.said_at)
        case Heartbeat():
            return heartbeats.of_event(event)
    raise AssertionError(f"{event.TYPE} says nothing of an agent")
