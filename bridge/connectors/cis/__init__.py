"""The connector for nodes that speak CIS agent federation 1.0.0, as specified and as published (1.1)."""
