"""The `MatrixBackend` of a node that is attached to a homeserver."""
