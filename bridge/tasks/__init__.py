"""The one model of work and its engine."""
