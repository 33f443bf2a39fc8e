"""Reads and writes the rooms in which people work with agents."""
