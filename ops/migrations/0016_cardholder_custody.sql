-- Personal data of cardholders under a key for each of them (written by the API) ------------------------------------------------------
--
-- Processes of the release before read and write the columns in clear, so those stay until "cardholder_clear_columns.after" drops
-- them. Until then the API writes both forms.

ALTER TABLE cardholders
    ALTER COLUMN given_name SET DEFAULT '',
    ALTER COLUMN family_name SET DEFAULT '',
    ALTER COLUMN email SET DEFAULT '',
    ADD COLUMN data_key             bytea,
    ADD COLUMN given_name_sealed    bytea,
    ADD COLUMN family_name_sealed   bytea,
    ADD COLUMN email_sealed         bytea,
    ADD COLUMN phone_sealed         bytea,
    ADD COLUMN date_of_birth_sealed bytea,
    ADD COLUMN address_sealed       bytea,
    ADD COLUMN email_digest         bytea,
    ADD COLUMN erased_at            timestamptz,
    ADD CONSTRAINT cardholders_sealed_whole CHECK (
        (data_key IS NOT NULL) = (given_name_sealed IS NOT NULL) AND (data_key IS NOT NULL) = (family_name_sealed IS NOT NULL)
        AND (data_key IS NOT NULL) = (email_sealed IS NOT NULL) AND (data_key IS NOT NULL) = (email_digest IS NOT NULL)
        AND (data_key IS NOT NULL OR (phone_sealed IS NULL AND date_of_birth_sealed IS NULL AND address_sealed IS NULL))),
    ADD CONSTRAINT cardholders_erased_whole CHECK (erased_at IS NULL OR (data_key IS NULL AND external_ref IS NULL AND status = 'closed'));
COMMENT ON COLUMN cardholders.data_key IS 'Key of the columns *_sealed, sealed under the master key. Erasing a cardholder destroys it.';
COMMENT ON COLUMN cardholders.email_digest IS 'Keyed hash of tenant, mode and lower-case e-mail address: equal addresses of one tenant have equal hashes.';

-- Empty when it is built: no row has a hash yet.
CREATE INDEX cardholders_of_email ON cardholders (tenant_id, live, email_digest, id) WHERE email_digest IS NOT NULL;

-- A process of the release before changes the columns in clear only: the sealed form is then out of date and is dropped. It must not
-- fill an erased row again.
CREATE FUNCTION cardholder_clear_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.erased_at IS NOT NULL THEN
        NEW.given_name := '';
        NEW.family_name := '';
        NEW.email := '';
        NEW.phone := NULL;
        NEW.date_of_birth := NULL;
        NEW.address := NULL;
        NEW.external_ref := NULL;
        NEW.status := 'closed';
    ELSIF OLD.given_name <> '' AND NEW.given_name <> '' AND NEW.given_name_sealed IS NOT DISTINCT FROM OLD.given_name_sealed THEN
        NEW.data_key := NULL;
        NEW.given_name_sealed := NULL;
        NEW.family_name_sealed := NULL;
        NEW.email_sealed := NULL;
        NEW.phone_sealed := NULL;
        NEW.date_of_birth_sealed := NULL;
        NEW.address_sealed := NULL;
        NEW.email_digest := NULL;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER cardholder_clear_write BEFORE UPDATE ON cardholders
    FOR EACH ROW WHEN (
        OLD.erased_at IS NOT NULL
        OR (OLD.given_name, OLD.family_name, OLD.email, OLD.phone, OLD.date_of_birth, OLD.address)
            IS DISTINCT FROM (NEW.given_name, NEW.family_name, NEW.email, NEW.phone, NEW.date_of_birth, NEW.address))
    EXECUTE FUNCTION cardholder_clear_write();
