"""The office as a Matrix room; the call log."""
