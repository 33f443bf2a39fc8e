"""What is wrong between us and the homeserver, from what it answers to five questions.

They are asked in this order, and each makes sense only once the one before is answered well: does it answer
at all, does it know our token, does it let us have our names, does it reach us, does it ask us for offices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from appservice.registration.namespaces import AgentRoom, Namespaces
from appservice.registration.registration import Registration, Wanted
from federation.matrix.identifiers import domain, localpart

MOST_TEXT: Final = 200

VERSIONS: Final = "/_matrix/client/versions"
WHOAMI: Final = "/_matrix/client/v3/account/whoami"
REGISTER: Final = "/_matrix/client/v3/register"
_DIRECTORY: Final = "/_matrix/client/v3/directory/room"


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is empty where it was no JSON object."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def errcode(self) -> str:
        return _text(self.body.get("errcode")) or f"HTTP status {self.status}"


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why there is none, as part of a sentence."""

    reason: str


Heard = Answer | NoAnswer


@dataclass(frozen=True, slots=True)
class Wrong:
    """`sentence` is for the operator. `passes`: a homeserver that is being started, or one that has enough
    for the moment, says so too; whoever can wait asks again."""

    sentence: str
    passes: bool = False


def wrong(sentence: str | None, heard: Heard) -> Wrong | None:
    """What was found wrong with an answer."""
    return None if sentence is None else Wrong(sentence, _passes(heard))


def _passes(heard: Heard) -> bool:
    if isinstance(heard, NoAnswer) or heard.status == 429:
        return True
    # A proxy whose homeserver is not there speaks no Matrix. What a homeserver says of itself with an errcode
    # is in its words, and is about what it was asked.
    return heard.status == 503 or (heard.status >= 500 and "errcode" not in heard.body)


def ping_path(registration: Registration) -> str:
    """Of `POST`, with a `transaction_id` by which we know our own ping when it comes."""
    return f"/_matrix/client/v1/appservice/{registration.id}/ping"


def wrong_versions(heard: Heard, url: str) -> str | None:
    """A sentence for the operator; None if all is well. So are the others."""
    if isinstance(heard, NoAnswer):
        return (
            f"The homeserver does not answer at {url} ({heard.reason}): start it, or correct"
            " appservice.homeserver."
        )
    if _passes(heard):
        return (
            f"The homeserver does not answer at {url} ({heard.errcode}): start it, or correct"
            " appservice.homeserver."
        )
    if heard.status != 200 or not isinstance(heard.body.get("versions"), list):
        return (
            f"What answers at {url} is no homeserver: appservice.homeserver has to name the port for clients,"
            " without a path."
        )
    return None


def wrong_whoami(heard: Heard, registration: Registration, wanted: Wanted) -> str | None:
    if isinstance(heard, NoAnswer):
        return f"The homeserver did not answer whose token ours is ({heard.reason})."
    if heard.status in (401, 403):
        return (
            f"The homeserver does not know our as_token ({heard.errcode}): name the registration"
            f" “{registration.id}” in its configuration and start it again; if it reads a copy, that has to"
            " be the same."
        )
    user = heard.body.get("user_id")
    if heard.status != 200 or not isinstance(user, str):
        return f"The homeserver did not say whose token ours is ({heard.errcode})."
    if domain(user) != wanted.namespaces.domain:
        return (
            f"The homeserver is called {_text(domain(user))}, and appservice.domain says"
            f" {wanted.namespaces.domain}: correct that, and write the registration anew."
        )
    sender = f"@{registration.secrets.sender_localpart}:{wanted.namespaces.domain}"
    if user != sender:
        return (
            f"The homeserver knows our as_token as that of {_text(user)}, and the registration says {sender}:"
            " it reads another file."
        )
    return None


def register_body(user: str) -> Mapping[str, Any]:
    """Of `POST`, for a user of ours. The one as whom the node speaks it needs in any case."""
    return {
        "type": "m.login.application_service",
        "username": localpart(user),
        # "inhibit_login: If true, an access_token and device_id should not be returned from this call":
        # homeservers without logins of that kind refuse to give them.
        "inhibit_login": True,
    }


def wrong_register(heard: Heard, user: str, namespaces: Namespaces) -> str | None:
    """It may have been made before."""
    prefix = namespaces.user_prefix
    if isinstance(heard, NoAnswer):
        return f"The homeserver did not answer when it was asked for the user {user} ({heard.reason})."
    if heard.status == 200 or heard.errcode == "M_USER_IN_USE":
        return None
    # "M_EXCLUSIVE: The resource being requested is reserved by an application service, or the application
    # service making the request has not created the resource."
    if heard.errcode == "M_EXCLUSIVE":
        return (
            f"The homeserver does not give us {user} (M_EXCLUSIVE): another of its application services"
            f" reserves users that begin with {prefix} too, or its copy of the registration is an older one."
            " Choose another appservice.user_prefix and write the registration anew, or start it again with"
            " the new copy."
        )
    return f"The homeserver does not give us {user} ({heard.errcode})."


def wrong_ping(heard: Heard, registration: Registration, *, came: bool) -> str | None:
    """`came`: whether this node received the ping, which proves that the homeserver reaches it. A Synapse that
    is repeating transactions at that moment answers `M_CONNECTION_FAILED` all the same: it cancels a timer
    that has already fired."""
    if came:
        return None
    if isinstance(heard, NoAnswer):
        return f"The homeserver did not answer when it was asked to reach us ({heard.reason})."
    where = registration.url
    if heard.status == 200:
        return (
            f"Something else than this node answers the homeserver at {where}: end it, or choose another"
            " port."
        )
    match heard.errcode:
        case "M_URL_NOT_SET":
            return "The homeserver's copy of the registration has no url: it reads another file."
        case "M_CONNECTION_FAILED" | "M_CONNECTION_TIMEOUT":
            return (
                f"The homeserver cannot reach this node at {where}"
                f" ({_text(heard.body.get('error')) or heard.errcode}): correct appservice.url, or host and"
                " port, and run `palaver registration` again. Inside a container 127.0.0.1 is the container"
                " itself."
            )
        case "M_BAD_STATUS":
            return (
                f"What the homeserver reaches at {where} refuses it (status"
                f" {_text(heard.body.get('status'))}): it reads another file with another"
                " hs_token, or something else has that port."
            )
        case "M_FORBIDDEN":
            return (
                f"The homeserver knows our as_token, but not as that of “{registration.id}”: it reads another"
                " file."
            )
        case "M_UNRECOGNIZED":
            return "The homeserver cannot be asked for a ping, which v1.7 of the specification has."
    return f"The homeserver was asked to reach us and failed ({heard.errcode})."


def office_nobody_has(number: str) -> AgentRoom:
    """As whose alias no office is written: behind a `=` there are two hexadecimal digits."""
    return AgentRoom("office", f"=check-{number}")


def alias_path(room: AgentRoom, namespaces: Namespaces) -> str:
    """Of `GET`. Of a name that it has reserved for us, and does not know, a homeserver asks us."""
    alias = namespaces.alias(room)
    assert alias is not None, "it is short"
    return f"{_DIRECTORY}/{quote(alias, safe='')}"


def wrong_offices(heard: Heard, registration: Registration, *, came: bool) -> str | None:
    """`came`: whether we were asked for it."""
    if came:
        return None
    if isinstance(heard, NoAnswer):
        return f"The homeserver did not answer when it was asked for the name of an office ({heard.reason})."
    if heard.errcode != "M_NOT_FOUND":
        return None  # why it does not say is nothing that a new copy would mend
    return (
        f"The homeserver's copy of the registration “{registration.id}” does not reserve the names of"
        " offices: let it read the file that is here now, and start it again."
    )


def _text(value: object) -> str:
    """What a server says, in one short line."""
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    return "".join(one for one in text if one.isprintable())[:MOST_TEXT]
