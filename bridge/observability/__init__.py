"""Logs, metrics, health, the live feed."""
