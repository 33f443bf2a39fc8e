"""The Matrix backend of a node that is attached to an existing homeserver as an application service."""
