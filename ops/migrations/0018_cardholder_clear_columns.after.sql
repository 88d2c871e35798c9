-- "stanchion migrate" seals every row before it applies this file (ops/cardholder_sealing.py).

LOCK TABLE cardholders IN ACCESS EXCLUSIVE MODE;
DO $$
BEGIN
    IF EXISTS (SELECT FROM cardholders WHERE data_key IS NULL AND erased_at IS NULL) THEN
        RAISE EXCEPTION 'there are cardholders whose personal data are not sealed yet';
    END IF;
END $$;
DROP TRIGGER cardholder_clear_write ON cardholders;
DROP FUNCTION cardholder_clear_write;
-- A dropped column's values stay in the rows that are on disk.
UPDATE cardholders
SET given_name = '', family_name = '', email = '', phone = NULL, date_of_birth = NULL, address = NULL
WHERE given_name <> '' OR family_name <> '' OR email <> '' OR phone IS NOT NULL OR date_of_birth IS NOT NULL OR address IS NOT NULL;
ALTER TABLE cardholders
    DROP COLUMN given_name,
    DROP COLUMN family_name,
    DROP COLUMN email,
    DROP COLUMN phone,
    DROP COLUMN date_of_birth,
    DROP COLUMN address,
    ADD CONSTRAINT cardholders_sealed_or_erased CHECK ((data_key IS NULL) = (erased_at IS NOT NULL));
