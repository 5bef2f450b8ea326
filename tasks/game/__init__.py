"""Games: tasks of several turns that the task itself answers."""
