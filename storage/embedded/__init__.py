"""The private Postgres that a node brings with it."""

from storage.embedded.server import EmbeddedPostgres, Report, State

__all__ = ["EmbeddedPostgres", "Report", "State"]
