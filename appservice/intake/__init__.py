"""Receives the events that the homeserver pushes, and fetches those that it failed to push."""
