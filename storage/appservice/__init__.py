"""Tables of a node that is attached to a homeserver as an application service."""
