-- What was superseded had held until then, and is still known to have: asked what held in May, memory_as_of answers with
-- the home that was given up in June. A statement that another one replaced word for word, or completed, is not repeated:
-- its successor holds at that time as well. What was taken back never held.
create or replace function reme.memory_as_of(workspace text, moment timestamptz, held_at timestamptz default null)
returns setof reme.memory language sql stable as $$
    with known as materialized (
        select k.*
        from (
            select distinct on (memory_id) after
            from reme.memory_history
            where workspace_id = workspace and changed_at <= moment
            order by memory_id, history_id desc
        ) as last_change,
        jsonb_populate_record(null::reme.memory, last_change.after) as k
        where last_change.after is not null and k.status in ('active', 'superseded')
    )
    select known.*
    from known
    where case when held_at is null then status = 'active'
               else valid_during @> held_at
                    and (status = 'active'
                         or not exists (select from known successor
                                        where successor.memory_id = known.superseded_by
                                          and successor.valid_during @> held_at)) end
$$;
comment on function reme.memory_as_of is 'The memories as they were known at a moment, word for word; with held_at, those that held at that time, superseded since or not.';
