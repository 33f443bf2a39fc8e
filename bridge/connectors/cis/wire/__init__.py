"""What the connector for CIS nodes answers on the node's port."""
