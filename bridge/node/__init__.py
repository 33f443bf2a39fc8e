"""Puts a node together, on either Matrix backend."""
