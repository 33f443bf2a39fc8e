"""The `MatrixBackend` of a node that is a homeserver: what its local users do in rooms."""
