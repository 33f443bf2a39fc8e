"""Joins, leaves, knocks and invites between servers, both as the joining and as the resident server."""
