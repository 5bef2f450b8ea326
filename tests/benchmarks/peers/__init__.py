"""One worker a library: each runs in a process and an environment of its own."""
