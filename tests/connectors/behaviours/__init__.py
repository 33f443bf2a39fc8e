"""What the centre relies on, by the parts of `bridge.matrix.side`; together they are the `Contract`."""
