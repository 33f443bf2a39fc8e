"""Dealings with published CIS nodes: single events over HTTP, in both directions."""
