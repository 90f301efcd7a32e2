"""What makes parts of this repository; nothing here is installed."""
