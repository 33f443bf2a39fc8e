"""Aliases, published rooms, spaces and profiles."""
