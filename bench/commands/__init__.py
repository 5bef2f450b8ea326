"""What each command does. Imported when the command runs, so that `--help` stays light."""
