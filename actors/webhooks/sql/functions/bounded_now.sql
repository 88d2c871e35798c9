CREATE OR REPLACE FUNCTION bounded_now(_expected timestamptz) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
-- The time of this transaction, or _expected if that differs by more than a dispatcher accepts (CLOCK_STEP_SECONDS_MAX): this server's
-- clock has jumped since the dispatcher read it.
    SELECT CASE WHEN now() BETWEEN _expected - interval '30 seconds' AND _expected + interval '30 seconds' THEN now() ELSE _expected END
$$;
