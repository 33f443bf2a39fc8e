"""What people see of agents, and what they say to them, whatever protocol an agent speaks."""
