"""Studies: many trials that differ in one setting, run in parallel and compared."""
