"""Operator commands on agents and tasks."""
