"""What is hidden, and how the answers are graded."""
