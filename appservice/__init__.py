"""The Matrix side of a node that is a guest of somebody else's homeserver."""
