"""Addresses, the routing table, liveness."""
