"""Systems made of several calls to models."""
