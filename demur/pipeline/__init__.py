"""The stages strung together: curate (sources -> release), evaluate (release -> runs), demo (both, and a report)."""
