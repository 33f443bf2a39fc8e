"""Operator commands on rooms and servers."""
