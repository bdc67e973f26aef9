"""What a pre-trained network has learnt: features and probes."""
