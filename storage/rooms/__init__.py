"""Tables of rooms and events (one .sql beside each .py)."""
