CREATE OR REPLACE FUNCTION time_ordered_id(_at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    -- A UUIDv7: 48 bits of milliseconds, the version, and the random bits and the variant of a UUIDv4.
    SELECT (lpad(to_hex(floor(extract(epoch FROM _at) * 1000)::bigint), 12, '0') || '7'
        || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid;
$$;
