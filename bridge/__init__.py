"""The centre: portals, ghosts, tasks, routing, the connectors, and the command line."""
