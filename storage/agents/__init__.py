"""Agents, peers, tokens, tasks."""
