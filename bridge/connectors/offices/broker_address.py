"""Where the broker is by which several processes of one node serve the same offices.

`redis://HOST:PORT/NUMBER` is a Redis, `tcp/HOST:PORT` a router of Zenoh. A password stands in neither: it is
in a file of its own.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["redis", "zenoh"]

_HOST: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
_REDIS: Final = re.compile(
    rf"redis://(?:[A-Za-z0-9._-]{{1,100}}@)?{_HOST}(?P<port>:\d{{1,5}})?(?:/\d{{1,5}})?", re.ASCII
)
_ZENOH: Final = re.compile(rf"tcp/{_HOST}(?P<port>:\d{{1,5}})", re.ASCII)
_WITH_PASSWORD: Final = re.compile(r"[A-Za-z0-9+.-]+:/*[^/@]*:[^@]*@|.*[?&]password=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """`password` is that for Redis."""

    kind: Kind
    url: str
    password: str | None = None

    def __repr__(self) -> str:
        """Without the password, wherever it is shown."""
        return f"BrokerAddress({self.url})"


@dataclass(frozen=True, slots=True)
class NoBroker:
    """The sentence says why it is none, and repeats nothing that may be a secret."""

    sentence: str


def broker_address(said: str) -> BrokerAddress | NoBroker:
    for kind, form in _FORMS.items():
        match = form.fullmatch(said)
        if match is None:
            continue
        port = match["port"]
        if port is not None and not 0 < int(port[1:]) <= 65_535:
            return NoBroker("has a port that there is not: those go from 1 to 65535")
        return BrokerAddress(kind, said)
    if _WITH_PASSWORD.match(said):
        return NoBroker(
            "must not hold a password: put that into a file of its own and name it in broker_password_file"
        )
    return NoBroker("is no broker: write redis://HOST:PORT/NUMBER for a Redis, or tcp/HOST:PORT for Zenoh")


_FORMS: Final[dict[Kind, re.Pattern[str]]] = {"redis": _REDIS, "zenoh": _ZENOH}
