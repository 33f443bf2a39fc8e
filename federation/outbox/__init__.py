"""What we send other servers: queue, destination state machine, pacing, retry."""
