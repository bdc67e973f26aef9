"""The inductive-bias study (Cazenavette and Lucey 2021)."""
