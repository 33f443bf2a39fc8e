"""Asking in the name of a person: `palaver task send --as`."""

from dataclasses import dataclass

from bridge.address import AgentAddress
from bridge.matrix_side import SpeaksForPeople
from bridge.people.permissions import Level, Rights
from bridge.people.requester import requester
from federation.identifiers import is_user_id
from storage.errors import LocalError


@dataclass(frozen=True, slots=True)
class ForPeople:
    """Of a node on whose homeserver people live. What is asked in a person's name is asked with the person's
    permissions."""

    speaks: SpeaksForPeople
    rights: Rights


async def address_of(person: str, for_people: ForPeople | None, node_id: str) -> AgentAddress:
    """Under which the person asks. LocalError when this node cannot ask for the person, or the person may
    not."""
    if not is_user_id(person):
        raise LocalError(
            f"{person[:255]} is no Matrix user.", "Write the whole id, as in @alice:example.org."
        )
    address = requester(person, node_id)
    if not isinstance(address, AgentAddress):
        raise LocalError(f"{person} cannot ask for anything here. {address.reason}", "Ask as yourself.")
    if for_people is None:
        raise LocalError(
            "This node speaks for nobody: it is a homeserver itself, and people live on others.",
            "Leave out --as, or have a node for it that is a guest of the person's homeserver.",
        )
    refusal = for_people.rights.of(person).refusal(Level.WORK)
    if refusal is not None:
        raise LocalError(refusal, "Change [permissions], or ask as somebody else.")
    if not await for_people.speaks.can_speak_for(person):
        raise LocalError(
            f"This node cannot speak for {person}.",
            "The person can give it an access token by a bridge manager; or enable [double_puppet], for which"
            " `palaver registration --double-puppet` writes the file.",
        )
    return address
