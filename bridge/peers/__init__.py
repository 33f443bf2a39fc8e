"""The nodes with which this node exchanges agents."""
