"""Studies: many trials that differ in one setting, executed side by side."""
