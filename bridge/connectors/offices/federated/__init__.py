"""Offices shared by several nodes."""
