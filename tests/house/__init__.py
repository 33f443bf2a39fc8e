"""The engineering rules that a test can check."""
