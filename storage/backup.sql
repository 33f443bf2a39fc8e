-- Objects of extensions belong to the server and do not count.
-- name: is_empty
SELECT NOT EXISTS (
    SELECT FROM pg_catalog.pg_class AS class
    WHERE class.relnamespace = 'public'::regnamespace
      AND NOT EXISTS (
          SELECT FROM pg_catalog.pg_depend AS depend
          WHERE depend.classid = 'pg_class'::regclass AND depend.objid = class.oid AND depend.deptype = 'e'
      )
);

-- The tables whose rows are in a backup.
-- name: count_tables
SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'outbox_epoch';

-- How long the restore waits for other sessions that use the tables, before it fails as a whole.
-- name: set_lock_timeout
SET LOCAL lock_timeout = '10s';

-- Drops the objects rather than the schema: a role may own the objects without owning the schema.
-- name: drop_everything
DO $$
DECLARE
    commands text[];
    command text;
BEGIN
    -- Collects all commands before it executes the first: an object that CASCADE has removed has no name any more.
    SELECT array_agg(statement) INTO commands FROM (
        SELECT format(
                   'DROP %s IF EXISTS public.%I CASCADE',
                   CASE relkind
                       WHEN 'v' THEN 'VIEW'
                       WHEN 'm' THEN 'MATERIALIZED VIEW'
                       WHEN 'S' THEN 'SEQUENCE'
                       WHEN 'f' THEN 'FOREIGN TABLE'
                       WHEN 'c' THEN 'TYPE'
                       ELSE 'TABLE'
                   END,
                   relname
               ) AS statement
        FROM pg_catalog.pg_class AS class
        WHERE relnamespace = 'public'::regnamespace
          AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c')
          AND NOT EXISTS (
              SELECT FROM pg_catalog.pg_depend AS depend
              WHERE depend.classid = 'pg_class'::regclass AND depend.objid = class.oid
                -- The sequence of an identity column is dropped with its table and cannot be dropped alone.
                AND (depend.deptype = 'e' OR relkind = 'S' AND depend.deptype = 'i')
          )
        UNION ALL
        SELECT format('DROP ROUTINE IF EXISTS %s CASCADE', proc.oid::regprocedure)
        FROM pg_catalog.pg_proc AS proc
        WHERE pronamespace = 'public'::regnamespace
          AND NOT EXISTS (
              SELECT FROM pg_catalog.pg_depend AS depend
              WHERE depend.classid = 'pg_proc'::regclass AND depend.objid = proc.oid AND depend.deptype = 'e'
          )
        UNION ALL
        SELECT format('DROP TYPE IF EXISTS public.%I CASCADE', typname)
        FROM pg_catalog.pg_type AS type
        WHERE typnamespace = 'public'::regnamespace
          AND typtype IN ('e', 'd', 'r')
          AND NOT EXISTS (
              SELECT FROM pg_catalog.pg_depend AS depend
              WHERE depend.classid = 'pg_type'::regclass AND depend.objid = type.oid AND depend.deptype = 'e'
          )
    ) AS found;
    FOREACH command IN ARRAY coalesce(commands, '{}') LOOP
        EXECUTE command;
    END LOOP;
END
$$;
