"""The federation requests that a Synapse made, from its log, answered or not."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SENDING = re.compile(r"\{(?P<id>[^}]*)\} \[(?P<to>[^\]]*)\] Sending request: (?P<method>\w+) (?P<url>\S+); timeout")
_ANSWERED = re.compile(r"\{(?P<id>[^}]*)\} \[[^\]]*\] Got response headers: (?P<status>\d+)")

# Their second segment is part of the endpoint: `query/directory`, `user/devices`, `media/download`.
_IN_TWO_WORDS = {"query", "user", "media"}


@dataclass
class RequestMade:
    """One attempt: each retry is a separate one."""

    to: str
    method: str
    path: str  # decoded, without the query
    query: str
    status: int | None = None  # None: no answer, or none yet

    @property
    def endpoint(self) -> str:
        """Return `state_ids`, `send`, `make_join`, `query/directory`; for keys `server`."""
        # /_matrix/federation/v1/state_ids/!room:server
        words = self.path.split("/")[4:]
        return "/".join(words[: 2 if words[0] in _IN_TWO_WORDS else 1])


def read(log: Path) -> list[RequestMade]:
    """Return the attempts in the order in which they began."""
    made: list[RequestMade] = []
    latest: dict[str, RequestMade] = {}
    for line in log.read_text("utf-8", "replace").splitlines() if log.exists() else ():
        if begun := _SENDING.match(line):
            url = urlsplit(begun["url"])
            request = RequestMade(begun["to"], begun["method"], unquote(url.path), url.query)
            latest[begun["id"]] = request
            made.append(request)
        elif answered := _ANSWERED.match(line):
            latest[answered["id"]].status = int(answered["status"])
    return made
