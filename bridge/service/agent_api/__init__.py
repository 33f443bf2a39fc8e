"""The interface for programs that attach themselves as agents, on the node's own port."""
