"""What answers that interface."""
