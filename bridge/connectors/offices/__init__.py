"""Offices: an A2C-SMCP server whose offices are Matrix rooms."""
