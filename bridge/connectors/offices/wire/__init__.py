"""What stands in front of Socket.IO."""
