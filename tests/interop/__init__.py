"""Against real peers: what a person on somebody else's homeserver gets."""
