"""The port the homeserver talks to."""
