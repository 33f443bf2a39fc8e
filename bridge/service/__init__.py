"""What the centre does with the world: files, sockets, logs, the life of the node."""
