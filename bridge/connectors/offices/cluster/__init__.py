"""Offices served by several processes of one node."""
