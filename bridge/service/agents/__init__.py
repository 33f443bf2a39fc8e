"""Agents of this node: those that it runs itself, and those that attach themselves."""
