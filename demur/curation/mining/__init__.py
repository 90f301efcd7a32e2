"""Mining: samples and an index to distractors."""
