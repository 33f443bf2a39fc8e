"""Handlers grouped by the spec's own chapters; 32 files become 8."""
