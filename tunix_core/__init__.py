"""An embedded, decoupled, multi-tenant LoRA RL trainer: actors, buffer, learner, and the timetable between them."""
