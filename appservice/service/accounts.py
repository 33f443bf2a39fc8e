"""Whose a token is: the homeserver is asked, which gave it."""

from typing import Final

from mautrix.api import Method

from appservice.homeserver_check import WHOAMI
from appservice.service.homeserver_client import HomeserverClient
from federation.errors import MatrixError
from federation.identifiers import is_user_id

USERINFO: Final = "/_matrix/federation/v1/openid/userinfo"
_NOBODY: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_FORBIDDEN", "M_UNAUTHORIZED"})


async def owner(client: HomeserverClient, token: str) -> str | None:
    """The user who has this access token; None if nobody has. A guest of the homeserver, who has shown
    nothing to it, is nobody. Raises `MatrixError` and `HomeserverAway`."""
    found = await _asked(client, WHOAMI, token)
    user = None if found is None or found.get("is_guest") is True else found.get("user_id")
    return user if isinstance(user, str) and is_user_id(user) else None


async def owner_of_openid(client: HomeserverClient, token: str) -> str | None:
    """The same of a token by which a user shows to others who he is, and nothing else. "Exchanges an OpenID
    access token for information about the user who generated the token": the specification has it in the
    address."""
    found = await _asked(client, USERINFO, token, {"access_token": token})
    user = None if found is None else found.get("sub")
    return user if isinstance(user, str) and is_user_id(user) else None


async def _asked(
    client: HomeserverClient, path: str, token: str, query: dict[str, str] | None = None
) -> dict[str, object] | None:
    try:
        return await client.ask(Method.GET, path, token=token, query=query)
    except MatrixError as refused:
        if refused.errcode in _NOBODY or refused.status in (401, 403):
            return None
        raise
