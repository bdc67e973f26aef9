"""isopix from Python: one function for each verb, and pre-trained models."""
