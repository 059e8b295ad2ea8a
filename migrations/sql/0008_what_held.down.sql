-- Back to the answer that leaves out what was superseded.
create or replace function reme.memory_as_of(workspace text, moment timestamptz, held_at timestamptz default null)
returns setof reme.memory language sql stable as $$
    select known.*
    from (
        select distinct on (memory_id) after
        from reme.memory_history
        where workspace_id = workspace and changed_at <= moment
        order by memory_id, history_id desc
    ) as last_change,
    jsonb_populate_record(null::reme.memory, last_change.after) as known
    where last_change.after is not null
      and known.status = 'active'
      and (held_at is null or known.valid_during @> held_at)
$$;
comment on function reme.memory_as_of is 'The memories as they were known at a moment, word for word; with held_at, only those that hold at that time.';
