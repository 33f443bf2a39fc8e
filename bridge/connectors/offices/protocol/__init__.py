"""A2C-SMCP messages and the office machine."""
