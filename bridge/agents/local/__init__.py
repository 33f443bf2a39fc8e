"""Agents that are commands this node runs."""
