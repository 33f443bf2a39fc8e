"""The addresses of brokers: `redis://HOST:PORT/NUMBER` is a Redis, `tcp/HOST:PORT` a Zenoh router. Neither
contains a password, which has a file of its own.
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
    """`password` is for a Redis."""

    kind: Kind
    url: str
    password: str | None = None

    def __repr__(self) -> str:
        """Omits the password, so that it cannot appear in logs."""
        return f"BrokerAddress({self.url})"


@dataclass(frozen=True, slots=True)
class InvalidBrokerAddress:
    """`reason` says why the address is not valid, and repeats nothing that may be a secret."""

    reason: str


def parse_broker_address(text: str) -> BrokerAddress | InvalidBrokerAddress:
    for kind, form in _FORMS.items():
        match = form.fullmatch(text)
        if match is None:
            continue
        port = match["port"]
        if port is not None and not 0 < int(port[1:]) <= 65_535:
            return InvalidBrokerAddress("has an invalid port: ports go from 1 to 65535")
        return BrokerAddress(kind, text)
    if _WITH_PASSWORD.match(text):
        return InvalidBrokerAddress(
            "must not contain a password: write it to a file and name that in broker_password_file"
        )
    return InvalidBrokerAddress(
        "is not a broker address: write redis://HOST:PORT/NUMBER for a Redis, or tcp/HOST:PORT for Zenoh"
    )


_FORMS: Final[dict[Kind, re.Pattern[str]]] = {"redis": _REDIS, "zenoh": _ZENOH}
