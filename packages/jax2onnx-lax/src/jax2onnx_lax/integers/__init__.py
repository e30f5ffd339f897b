"""What is known of integers before a program runs: between which dimensions they are, and which are affine in positions and counters."""
