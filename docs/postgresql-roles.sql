-- Roles for a campaign on PostgreSQL: a worker that can only add, an auditor that can only read.
-- Run it as the owner of the tables, in the campaign's database and schema, after `safe2real campaign init`:
--   psql "postgresql://owner@host/database" -f postgresql-roles.sql
-- Then give the roles to those who log in: CREATE ROLE cell3 LOGIN IN ROLE safe2real_worker;

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'safe2real_worker') THEN
    CREATE ROLE safe2real_worker NOLOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'safe2real_auditor') THEN
    CREATE ROLE safe2real_auditor NOLOGIN;
  END IF;
  -- The schema that the tables are in, whatever its name.
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO safe2real_worker, safe2real_auditor', current_schema());
END
$$;

GRANT SELECT ON safe2real_campaign, safe2real_event, safe2real_policy, safe2real_signature, safe2real_snapshot
  TO safe2real_worker, safe2real_auditor;
GRANT INSERT ON safe2real_event, safe2real_policy, safe2real_signature TO safe2real_worker;
-- One writer at a time: a worker locks the campaign's row, for which PostgreSQL asks for the right to change a column of
-- it. The trigger below refuses every change all the same.
GRANT UPDATE (format) ON safe2real_campaign TO safe2real_worker;
-- A snapshot saves a new process the reading of the whole record. In a record that is not signed nothing shows who wrote it,
-- and whoever forges one decides what is handed out next (`verify` would find that, but afterwards): so workers go without,
-- and the owner's processes write them. In a signed record a snapshot is sealed with the key; there, let workers write them:
--   GRANT INSERT, DELETE ON safe2real_snapshot TO safe2real_worker;

CREATE OR REPLACE FUNCTION safe2real_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append only: nothing in a record is changed or removed', TG_TABLE_NAME;
END
$$;

CREATE OR REPLACE TRIGGER safe2real_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON safe2real_campaign
  FOR EACH STATEMENT EXECUTE FUNCTION safe2real_refuse_change();
CREATE OR REPLACE TRIGGER safe2real_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON safe2real_event
  FOR EACH STATEMENT EXECUTE FUNCTION safe2real_refuse_change();
CREATE OR REPLACE TRIGGER safe2real_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON safe2real_policy
  FOR EACH STATEMENT EXECUTE FUNCTION safe2real_refuse_change();
CREATE OR REPLACE TRIGGER safe2real_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON safe2real_signature
  FOR EACH STATEMENT EXECUTE FUNCTION safe2real_refuse_change();
