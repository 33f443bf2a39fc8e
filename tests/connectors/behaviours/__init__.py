"""What the centre relies on, by the parts of `bridge.matrix_side`; together they are the `Contract`."""
