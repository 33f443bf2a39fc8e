"""The embedded Postgres: a private server that a node starts in its data directory."""

from storage.embedded.server import EmbeddedPostgres, Report, State

__all__ = ["EmbeddedPostgres", "Report", "State"]
