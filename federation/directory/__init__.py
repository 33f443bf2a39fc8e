"""Aliases, published rooms, spaces, profiles, device queries."""
