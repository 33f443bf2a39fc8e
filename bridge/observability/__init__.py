"""Logs, metrics, health checks and the live feed."""
