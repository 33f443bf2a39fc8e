"""The control socket and its operator commands."""
