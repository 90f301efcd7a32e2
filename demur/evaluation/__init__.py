"""Release and systems to runs: tasks, run folders, the runner, and judging again."""
