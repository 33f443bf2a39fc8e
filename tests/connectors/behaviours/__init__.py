"""The behaviours that the bridge relies on, by the parts of `bridge.matrix.backend`; together they are the
`Contract`."""
