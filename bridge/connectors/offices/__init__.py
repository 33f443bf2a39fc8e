"""Offices: an A2C-SMCP server whose rooms are Matrix rooms."""
