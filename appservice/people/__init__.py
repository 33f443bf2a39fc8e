"""Ghost users, double puppets, third-party lookups."""
