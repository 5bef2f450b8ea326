"""Programming tasks whose verdict is a program's, never a model's."""
