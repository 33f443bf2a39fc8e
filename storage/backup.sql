-- Objects of extensions came with the server and do not count.
-- name: is_empty
SELECT NOT EXISTS (
    SELECT FROM pg_catalog.pg_class AS class
    WHERE class.relnamespace = 'public'::regnamespace
      AND NOT EXISTS (
          SELECT FROM pg_catalog.pg_depend AS depend
          WHERE depend.classid = 'pg_class'::regclass AND depend.objid = class.oid AND depend.deptype = 'e'
      )
);

-- Those of which the rows are in a backup.
-- name: count_tables
SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'outbox_epoch';

-- Who still uses the tables is waited for this long, and then the restore is refused as a whole.
-- name: limit_waiting
SET LOCAL lock_timeout = '10s';

-- Table by table rather than the schema itself: a role may own what is in it without owning it.
-- name: drop_everything
DO $$
DECLARE
    commands text[];
    command text;
BEGIN
    -- All of them before the first is carried out: what goes with something else has no name any more then.
    SELECT array_agg(said) INTO commands FROM (
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
               ) AS said
        FROM pg_catalog.pg_class AS class
        WHERE relnamespace = 'public'::regnamespace
          AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'c')
          AND NOT EXISTS (
              SELECT FROM pg_catalog.pg_depend AS depend
              WHERE depend.classid = 'pg_class'::regclass AND depend.objid = class.oid
                -- The sequence of an identity column goes with its table, and not without it.
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
