"""The connector for nodes that implement CIS agent federation 1.0.0, as specified and as published (1.1)."""
