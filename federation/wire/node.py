"""What the endpoints have to be given. There are no globals: two nodes fit into one process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from federation.admission import Rules


@dataclass(frozen=True, slots=True)
class Readiness:
    """Each check by name: None when it is fine, a sentence when it is not. Sentences hold no secrets."""

    checks: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """Its calls are made for every request and have to be quick."""

    # The signed document of `GET /_matrix/key/v2/server`, as JSON.
    own_keys: Callable[[], bytes]
    readiness: Callable[[], Readiness]
    version: str
    rules: Rules = field(default_factory=Rules)
    # Where others find this server, `host[:port]`, if that is not what its name says.
    delegated_name: str | None = None


NODE = web.AppKey("NODE", Node)
