"""The `MatrixSide` of a node that is a guest."""
