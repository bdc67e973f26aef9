"""Benchmarks: speed and correctness on the device at hand, next to the peers that are installed.

A file for each kind of work; a benchmark in it describes itself: its name, work, peers and sizes. The command
`isopix bench` alone imports this package.
"""
