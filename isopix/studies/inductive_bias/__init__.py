"""The inductive-bias study (Cazenavette and Lucey 2021): trials, metrics, claims, figures and page."""
