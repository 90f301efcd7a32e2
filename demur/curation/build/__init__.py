"""Builds: a recipe to a release, its estimate, and what is asked of a build afterwards."""
