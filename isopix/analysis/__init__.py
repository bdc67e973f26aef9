"""Numbers about models, before and after training."""
