"""The installed wheel as a process: what a person who runs a node can meet."""
