-- Reads and locks the sales. Inserts the rows of sales that have none.
INSERT INTO clearing_schedule AS sale (simulation_id)
SELECT id FROM unnest($1::uuid[]) AS wanted (id) ORDER BY id
ON CONFLICT (simulation_id) DO UPDATE SET presentments = sale.presentments
RETURNING simulation_id::text, open_minor, presentments
