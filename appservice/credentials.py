"""Whether it is the homeserver that asks: it shows the `hs_token` of the registration.

Application service API, "Authorization".
"""

import hmac
from collections.abc import Sequence

from federation.errors import MatrixError


def check(authorization: Sequence[str], query: Sequence[str], hs_token: str) -> None:
    """`authorization` are the headers of that name, `query` the parameters `access_token`, which older
    homeservers send instead or besides. Raises `MatrixError`."""
    # "Application services MUST verify that the provided Bearer token matches their known hs_token, failing
    # the request with an M_FORBIDDEN error if it does not."
    shown = [*(_bearer(header) for header in authorization), *query]
    if not shown:
        raise MatrixError("M_UNAUTHORIZED", "Show the hs_token of the registration.", 401)
    # Each of them, and all of them to the end: how long it takes tells nothing.
    right = [hmac.compare_digest(_bytes(token), _bytes(hs_token)) for token in shown]
    if not all(right):
        raise MatrixError("M_FORBIDDEN", "This is not the hs_token of the registration.", 403)


def _bearer(header: str) -> str:
    """Empty, which no token is, for another scheme."""
    scheme, _, token = header.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _bytes(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")
