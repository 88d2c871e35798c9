CREATE OR REPLACE FUNCTION refuse_commit(_code text) RETURNS boolean LANGUAGE plpgsql AS $$
-- Ends the transaction of commit_approval.sql with the errors of commit_batch_v3.
BEGIN
    RAISE EXCEPTION '%', CASE _code WHEN 'ST001' THEN 'stale epoch' ELSE 'card or account behind' END USING ERRCODE = _code;
END $$;
