"""Making datasets: sources, gating, mining, quality control, releases."""
