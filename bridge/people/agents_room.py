"""The room in which the agents of a namespace work where people see it: `#agents-{ns}:{node}`, or on the
homeserver of which the node is a guest."""

from bridge.people.cleaning import one_line
from bridge.people.place import AGENTS_ROOM
from bridge.people.settings import PeopleSettings
from federation.room_request import InitialState, RoomRequest


def alias_localpart(namespace: str) -> str:
    return f"agents-{namespace}"


def alias(namespace: str, settings: PeopleSettings) -> str:
    return f"#{alias_localpart(namespace)}:{settings.names.domain}"


def request_for(namespace: str, settings: PeopleSettings) -> RoomRequest:
    """Asked for again it is the same room. Who is in it cannot bring in others: the node does that."""
    node = settings.node_id
    return RoomRequest(
        creator=settings.node_user,
        version=settings.room_version,
        preset="public_chat",
        name=f"Agents of {node}" if namespace == "default" else f"Agents of {node}: {namespace}",
        topic=(
            "Each task is a thread. Mention an agent to give it work, answer in a thread to go on with it,"
            f" and react with ❌ to take it back. “{one_line(settings.prefix, 40)} help” tells more."
        ),
        alias=alias_localpart(namespace),
        listed=settings.is_listed,
        initial_state=(InitialState(AGENTS_ROOM, {"namespace": namespace, "node": node}),),
        power_levels={"invite": 50},
        join_rule=settings.join_rule,
        key=f"people/{namespace}",
    )
