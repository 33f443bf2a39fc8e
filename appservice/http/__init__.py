"""The HTTP endpoints that the homeserver calls."""
