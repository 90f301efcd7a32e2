"""Asking the indexes: search, fusion, re-ranking, recall figures."""
