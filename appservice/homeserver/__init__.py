"""The client of the homeserver and its availability."""
