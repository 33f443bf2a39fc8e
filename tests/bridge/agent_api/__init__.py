"""The interface for agents that attach themselves."""
