"""Nodes with which agents are exchanged."""
