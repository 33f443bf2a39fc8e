"""Socket.IO."""
