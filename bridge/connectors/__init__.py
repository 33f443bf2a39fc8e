"""The agent protocols. Each package speaks one of them; what an agent is, and a task, the core knows."""
