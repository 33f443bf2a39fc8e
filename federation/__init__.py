"""The Matrix vocabulary, and the Matrix side of a node that is itself the homeserver."""
