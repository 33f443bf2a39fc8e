"""The core: portals, ghosts, tasks, routing, the connectors, and the command line."""
