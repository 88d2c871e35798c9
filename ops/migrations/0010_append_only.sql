-- What is on record cannot be changed, removed or emptied by a statement, whoever runs it. Only a superuser can switch these triggers off.

CREATE TRIGGER journal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON journal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_entries_not_emptied BEFORE TRUNCATE ON ledger_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER kyc_accesses_not_emptied BEFORE TRUNCATE ON kyc_accesses
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
