"""What the core relies on, by the parts of `bridge.matrix.backend`; together they are the `Contract`."""
