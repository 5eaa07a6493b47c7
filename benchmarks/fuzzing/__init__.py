"""The parts of `benchmarks/fuzz.py`: inputs of four kinds, broken in known ways, and what must hold of the answer."""
