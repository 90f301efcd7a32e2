"""Turning documents and images into searchable indexes."""
