"""State resolution: computes the state of a room where branches of its history merge."""
