"""The control socket and the operator commands that it serves."""
