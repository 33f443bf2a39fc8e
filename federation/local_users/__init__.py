"""The `MatrixBackend` of a node that is a homeserver: what our own users do in rooms."""
