SELECT open_minor FROM clearing_schedule WHERE simulation_id = $1
