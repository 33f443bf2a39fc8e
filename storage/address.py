"""Where a database is. One form for both kinds of server; the password is kept apart and never shown."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from storage.errors import LocalError

SCHEMES = {"postgresql", "postgres"}


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """`url` holds no secret: it may be shown to a person and stand on a command line."""

    url: str
    password: str | None = field(default=None, repr=False)

    @classmethod
    def at_socket(cls, directory: Path, port: int, user: str, database: str) -> Self:
        query = f"host={quote(str(directory), safe='')}&port={port}"
        return cls(f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?{query}")

    @classmethod
    def from_url(cls, url: str, password: str | None = None) -> Self:
        """`password` comes from a file and outranks one that somebody wrote into the URL."""
        try:
            parts = urlsplit(url.strip())
            query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            _ = parts.port if "," not in parts.netloc else None
        except ValueError:
            raise malformed() from None
        names = {name for name, _ in query}
        if parts.scheme not in SCHEMES or not (parts.netloc or "host" in names):
            raise malformed()
        if "sslpassword" in names:
            raise LocalError(
                "database.url holds the passphrase of a TLS key, and a URL is no place for a secret.",
                "Take sslpassword out of it and use a key without a passphrase, readable by the node alone.",
            )
        user, at, hosts = parts.netloc.rpartition("@")
        user, _, written = user.partition(":")
        written = unquote(written) or dict(query).get("password", "")
        kept = urlencode([pair for pair in query if pair[0] != "password"], quote_via=quote)
        shown = urlunsplit((parts.scheme, user + at + hosts, parts.path, kept, ""))
        # urlunsplit leaves out the slashes of an empty host.
        shown = shown if "://" in shown else shown.replace(":", "://", 1)
        return cls(shown, password if password is not None else written or None)

    def with_database(self, name: str) -> Self:
        """The same server and user, another database."""
        parts = urlsplit(self.url)
        query = [pair for pair in parse_qsl(parts.query) if pair[0] not in {"dbname", "database"}]
        kept = urlencode(query, quote_via=quote)
        return replace(
            self, url=f"{parts.scheme}://{parts.netloc}/{quote(name, safe='')}" + (f"?{kept}" if kept else "")
        )

    @property
    def database(self) -> str:
        """The database's name as far as the address says it; without, Postgres takes the user's name."""
        parts = urlsplit(self.url)
        query = dict(parse_qsl(parts.query))
        return (
            query.get("dbname") or query.get("database") or unquote(parts.path.removeprefix("/")) or self.user
        )

    @property
    def user(self) -> str:
        parts = urlsplit(self.url)
        return dict(parse_qsl(parts.query)).get("user") or unquote(parts.netloc.rpartition("@")[0])

    @property
    def server(self) -> str:
        """The server for a sentence that a person reads."""
        parts = urlsplit(self.url)
        hosts = parts.netloc.rpartition("@")[2]
        return unquote(hosts) or dict(parse_qsl(parts.query)).get("host", "this machine")


def malformed() -> LocalError:
    # What was written is not repeated: it may hold a password that made it unreadable.
    return LocalError(
        "database.url is not a Postgres URL.",
        "Write it as postgresql://USER@HOST:5432/DATABASE and put the password into database.password_file.",
    )
