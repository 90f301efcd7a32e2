"""What every room stands on: records, errors, files, plug-ins, progress."""
