"""The inductive-bias study (Cazenavette and Lucey 2021): grid, trials, metrics, claims, figures and page."""
