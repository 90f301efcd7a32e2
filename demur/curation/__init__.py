"""Making releases: the gates, mining, builds by a recipe, and releases from a user's own documents."""
