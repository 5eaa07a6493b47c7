"""Search for the options that validate best on some data, and write them as a recipe."""
