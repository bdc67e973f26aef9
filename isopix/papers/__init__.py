"""What the papers, and the code and blogs of their authors, claim: published numbers with their protocol."""
