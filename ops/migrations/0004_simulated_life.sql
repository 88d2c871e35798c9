-- What the simulated network remembers of its sales, so that it can present them by itself, whatever restarts.

CREATE TABLE clearing_schedule (
    simulation_id uuid PRIMARY KEY,
    open_minor    bigint NOT NULL DEFAULT 0 CHECK (open_minor >= 0),
    presentments  integer NOT NULL DEFAULT 0,
    due_at        timestamptz
) WITH (fillfactor = 70);
CREATE INDEX clearing_schedule_due ON clearing_schedule (due_at) WHERE due_at IS NOT NULL;
COMMENT ON TABLE clearing_schedule IS 'One row for each sale of the simulated network that was approved or followed up.';
COMMENT ON COLUMN clearing_schedule.open_minor IS 'What is still to be presented, as the network knows it: approved and incremented, less reversed and presented.';
COMMENT ON COLUMN clearing_schedule.presentments IS 'Presentment numbers taken; a number is never taken twice.';
COMMENT ON COLUMN clearing_schedule.due_at IS 'When the network presents the sale by itself; null = not at all.';

-- Only columns that never change, so that moving a simulation along stays a heap-only update.
CREATE INDEX simulations_forwarded ON simulations (accepted_at) WHERE operation IN ('reversal', 'clearing');
COMMENT ON INDEX simulations_forwarded IS 'Messages that must arrive: a restarted network repeats those without an answer.';
