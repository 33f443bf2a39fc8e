"""The homeserver of which this node is a guest does not answer."""

from storage.connecting import ConnectionLost
from storage.errors import LocalError


class HomeserverAway(ConnectionLost):
    """Whether it did what it was asked for is not known. Whoever goes on by itself after its database was
    away does so after this too: nothing is lost by it, and the order is kept."""

    def __init__(self, url: str, reason: str) -> None:
        LocalError.__init__(
            self,
            f"The homeserver at {url} does not answer ({reason}).",
            "Palaver goes on by itself once it answers again; look there if it does not.",
        )
