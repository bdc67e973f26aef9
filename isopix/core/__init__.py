"""What every other package stands on: array types, settings, randomness, devices."""
