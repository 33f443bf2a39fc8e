"""Finds problems between this node and the homeserver, from the homeserver's responses to five requests.

The requests have an order, and each makes sense only if the previous one succeeded: does the homeserver
respond, does it know the as_token, does it let this node register its users, does it reach this node, does it
query this node for aliases of offices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from appservice.registration.namespaces import AgentRoom, Namespaces
from appservice.registration.registration import Registration, RegistrationSettings
from federation.matrix.identifiers import domain, localpart

MAX_TEXT: Final = 200

VERSIONS: Final = "/_matrix/client/versions"
WHOAMI: Final = "/_matrix/client/v3/account/whoami"
REGISTER: Final = "/_matrix/client/v3/register"
_DIRECTORY: Final = "/_matrix/client/v3/directory/room"


@dataclass(frozen=True, slots=True)
class Response:
    """`body` is empty if it was not a JSON object."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def errcode(self) -> str:
        return _text(self.body.get("errcode")) or f"HTTP status {self.status}"


@dataclass(frozen=True, slots=True)
class NoResponse:
    """Why there was no response, as part of a sentence."""

    reason: str


RequestResult = Response | NoResponse


@dataclass(frozen=True, slots=True)
class Problem:
    """`sentence` is for the operator. `is_transient`: a homeserver that is starting or overloaded responds
    the same way, so the caller may retry. `is_warning`: the node works all the same."""

    sentence: str
    is_transient: bool = False
    is_warning: bool = False


NO_PINGS: Final = Problem(
    "The homeserver does not support pings, which v1.7 of the specification added: this node cannot check whether the"
    " homeserver reaches it.",
    is_warning=True,
)


def problem(sentence: str | None, result: RequestResult) -> Problem | None:
    """The problem that a sentence describes, or None."""
    return None if sentence is None else Problem(sentence, _is_transient(result))


def _is_transient(result: RequestResult) -> bool:
    if isinstance(result, NoResponse) or result.status == 429:
        return True
    # A reverse proxy without its homeserver sends no Matrix errors. A response with an errcode is from the
    # homeserver and concerns the request.
    return result.status == 503 or (result.status >= 500 and "errcode" not in result.body)


def ping_path(registration: Registration) -> str:
    """For `POST`, with a `transaction_id` that identifies the ping when it arrives."""
    return f"/_matrix/client/v1/appservice/{registration.id}/ping"


def versions_problem(result: RequestResult, url: str) -> str | None:
    """A sentence for the operator; None if there is no problem. The same holds for the other functions."""
    if isinstance(result, NoResponse):
        return (
            f"The homeserver does not respond at {url} ({result.reason}): start it, or correct appservice.homeserver."
        )
    if _is_transient(result):
        return (
            f"The homeserver does not respond at {url} ({result.errcode}): start it, or correct appservice.homeserver."
        )
    if result.status != 200 or not isinstance(result.body.get("versions"), list):
        return (
            f"The server at {url} is not a homeserver: appservice.homeserver has to be the URL for clients,"
            " without a path."
        )
    return None


def whoami_problem(result: RequestResult, registration: Registration, wanted: RegistrationSettings) -> str | None:
    if isinstance(result, NoResponse):
        return f"The homeserver did not respond to the check of the as_token ({result.reason})."
    if result.status in (401, 403):
        return (
            f"The homeserver does not know the as_token ({result.errcode}): add the registration"
            f" “{registration.id}” to its configuration and restart it; if it reads a copy, the copy has to"
            " be identical."
        )
    user = result.body.get("user_id")
    if result.status != 200 or not isinstance(user, str):
        return f"The homeserver did not name the owner of the as_token ({result.errcode})."
    if domain(user) != wanted.namespaces.domain:
        return (
            f"The homeserver's server name is {_text(domain(user))}, but appservice.domain is"
            f" {wanted.namespaces.domain}: correct that, and write the registration again."
        )
    sender = f"@{registration.secrets.sender_localpart}:{wanted.namespaces.domain}"
    if user != sender:
        return (
            f"The homeserver assigns the as_token to {_text(user)}, but the registration to {sender}:"
            " it reads another file."
        )
    return None


def register_body(user: str) -> Mapping[str, Any]:
    """For `POST`, for a user of this node."""
    return {
        "type": "m.login.application_service",
        "username": localpart(user),
        # "inhibit_login: If true, an access_token and device_id should not be returned from this call":
        # homeservers without logins of that kind refuse to give them.
        "inhibit_login": True,
    }


def register_problem(result: RequestResult, user: str, namespaces: Namespaces) -> str | None:
    """The user may already be registered."""
    prefix = namespaces.user_prefix
    if isinstance(result, NoResponse):
        return f"The homeserver did not respond to the registration of {user} ({result.reason})."
    if result.status == 200 or result.errcode == "M_USER_IN_USE":
        return None
    # "M_EXCLUSIVE: The resource being requested is reserved by an application service, or the application
    # service making the request has not created the resource."
    if result.errcode == "M_EXCLUSIVE":
        return (
            f"The homeserver refuses to register {user} (M_EXCLUSIVE): another of its application services"
            f" reserves users that begin with {prefix} too, or its copy of the registration is outdated."
            " Choose another appservice.user_prefix and write the registration again, or restart it with"
            " the new copy."
        )
    return f"The homeserver refuses to register {user} ({result.errcode})."


def lacks_pings(result: RequestResult) -> bool:
    """Whether a request for a ping shows that the homeserver has none, as Dendrite 0.15."""
    return isinstance(result, Response) and result.errcode == "M_UNRECOGNIZED"


def ping_problem(result: RequestResult, registration: Registration, *, was_received: bool) -> str | None:
    """`was_received`: whether this node received the ping, which proves that the homeserver reaches it. A
    Synapse that is repeating transactions at that moment responds `M_CONNECTION_FAILED` all the same: it
    cancels a timer that has already fired. Without pings there is no problem (`lacks_pings`)."""
    if was_received or lacks_pings(result):
        return None
    if isinstance(result, NoResponse):
        return f"The homeserver did not respond to the request for a ping ({result.reason})."
    where = registration.url
    if result.status == 200:
        return f"Another program answers the homeserver's requests at {where}: stop it, or choose another port."
    match result.errcode:
        case "M_URL_NOT_SET":
            return "The homeserver's copy of the registration has no url: it reads another file."
        case "M_CONNECTION_FAILED" | "M_CONNECTION_TIMEOUT":
            return (
                f"The homeserver cannot reach this node at {where}"
                f" ({_text(result.body.get('error')) or result.errcode}): correct appservice.url, or host and"
                " port, and run `palaver registration` again. Inside a container 127.0.0.1 is the container"
                " itself."
            )
        case "M_BAD_STATUS":
            return (
                f"The server at {where} refuses the homeserver's request (status"
                f" {_text(result.body.get('status'))}): it reads another file with another"
                " hs_token, or another program uses that port."
            )
        case "M_FORBIDDEN":
            return (
                f"The homeserver knows the as_token, but not for the registration “{registration.id}”: it"
                " reads another file."
            )
    return f"The homeserver failed to ping this node ({result.errcode})."


def unused_office(number: str) -> AgentRoom:
    """An alias that no office has: in office aliases `=` is followed by two hexadecimal digits."""
    return AgentRoom("office", f"=check-{number}")


def alias_path(room: AgentRoom, namespaces: Namespaces) -> str:
    """For `GET`. A homeserver queries this node for an unknown alias in its reserved namespace."""
    alias = namespaces.alias(room)
    assert alias is not None, "the alias is short enough"
    return f"{_DIRECTORY}/{quote(alias, safe='')}"


def offices_problem(result: RequestResult, registration: Registration, *, was_received: bool) -> str | None:
    """`was_received`: whether the homeserver's query has reached this node."""
    if was_received:
        return None
    if isinstance(result, NoResponse):
        return f"The homeserver did not respond to the query for an office's alias ({result.reason})."
    if result.errcode != "M_NOT_FOUND":
        return None  # a new copy of the registration would not fix other errors
    return (
        f"The homeserver's copy of the registration “{registration.id}” does not reserve the aliases of"
        " offices: replace it with the current file, and restart the homeserver."
    )


def _text(value: object) -> str:
    """Text from a server, as one short line."""
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    return "".join(one for one in text if one.isprintable())[:MAX_TEXT]
