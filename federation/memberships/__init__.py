"""Joins, leaves, knocks, invites: both as the asking and as the resident server."""
