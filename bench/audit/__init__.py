"""`bench audit`: what the tasks, tools and model cost on this machine, and the sizes of a run that follow."""
