"""The version of the package, and its name in an index of packages."""

__version__ = "0.2.0.dev0"
DISTRIBUTION = "isopix-pretraining"  # `isopix` of the Python Package Index is another project
