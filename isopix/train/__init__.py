"""Training: the loop, optimizers, schedules, evaluators and the learning-rate search."""
