"""Putting a node together on either Matrix backend."""
