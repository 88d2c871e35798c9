SELECT adopt_restored_events() AS adopted
