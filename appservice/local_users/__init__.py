"""The `MatrixBackend` of a node that is a guest."""
