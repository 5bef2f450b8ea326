"""Question answering with tools."""
