-- The pages of a programme's outages (GET /v1/programs/{id}/outages).

CREATE INDEX outages_by_id ON outages (programme_id, id);
