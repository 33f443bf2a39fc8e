"""State resolution: which state a room has where branches of its history meet."""
