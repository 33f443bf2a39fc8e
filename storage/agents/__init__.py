"""Tables of agents, their nodes, peers and tokens, and of tasks."""
