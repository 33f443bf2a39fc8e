"""Calls and tasks from outside an office."""
