"""Explanations: the patterns behind a prediction, scored, named, drawn and tested."""
