"""Example models and functions, which tests, golden graphs, benchmarks and tables share."""
