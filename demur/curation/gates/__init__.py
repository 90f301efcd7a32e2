"""Gates: what they are asked, in which order, and what their verdicts decide."""
