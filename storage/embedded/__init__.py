"""The private Postgres that a node brings with it."""

from storage.embedded.server import EmbeddedPostgres, Report
from storage.embedded.supervision import State

__all__ = ["EmbeddedPostgres", "Report", "State"]
