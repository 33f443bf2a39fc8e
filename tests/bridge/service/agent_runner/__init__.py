"""`palaver agent run` against a real node."""
