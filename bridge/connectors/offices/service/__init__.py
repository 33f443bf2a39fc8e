"""Doing what the offices' rules decide."""
