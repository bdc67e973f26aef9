"""Published results of the papers and of their authors' code and blogs, with the protocol of each number."""
