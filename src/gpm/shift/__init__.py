"""The shift report: how far a target is from its source, how the model fares on it, and which patterns both have."""
