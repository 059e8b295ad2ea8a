-- Views and functions for people who look into the memory with SQL (docs/sql.md).


-- Views ---------------------------------------------------------------------------------------------------------------

create view reme.memory_current with (security_invoker) as
select workspace_id, memory_id, kind, subject, when_to_use, content, keywords, importance, score, seen_count,
       observed_at, valid_during, recorded_at, updated_at, author, metadata, user_id, agent_id, run_id
from reme.memory
where status = 'active' and (upper(valid_during) is null or upper(valid_during) > now());
comment on view reme.memory_current is 'The active memories that are not over; some may not have begun.';

create view reme.memory_timeline with (security_invoker) as
select workspace_id, subject, coalesce(lower(valid_during), observed_at, recorded_at) as since, upper(valid_during) as until,
       kind, content, status, superseded_by, memory_id
from reme.memory
where status <> 'deleted'
order by workspace_id, subject, since;
comment on view reme.memory_timeline is 'The memories of each subject by the time from which they hold, with those that were superseded or have expired.';
comment on column reme.memory_timeline.since is 'From when it holds; where that is not known, when it was said or stored.';
comment on column reme.memory_timeline.until is 'Until when it holds; empty: no end is known.';

create view reme.memory_lineage with (security_invoker) as
select s.workspace_id, s.memory_id, m.kind, m.content, s.source_kind, s.source_id,
       coalesce(nullif(s.quote, ''), said.content, origin.content, tried.summary) as evidence,
       coalesce(said.sent_at, origin.observed_at, tried.finished_at) as evidence_at,
       coalesce(nullif(said.author, ''), said.role) as said_by
from reme.memory_source s
join reme.memory m using (workspace_id, memory_id)
left join reme.message said
    on s.source_kind = 'message' and said.workspace_id = s.workspace_id and said.message_id = s.source_id
left join reme.memory origin
    on s.source_kind = 'memory' and origin.workspace_id = s.workspace_id and origin.memory_id = s.source_id
left join reme.episode tried
    on s.source_kind = 'episode' and tried.workspace_id = s.workspace_id and tried.episode_id = s.source_id;
comment on view reme.memory_lineage is 'Each memory beside the evidence that it rests on.';
comment on column reme.memory_lineage.evidence is 'The words it rests on: the quoted passage, or all of the message, memory or summary of the episode.';
comment on column reme.memory_lineage.evidence_at is 'When that was said, seen or done.';
comment on column reme.memory_lineage.said_by is 'Who said it; empty where the evidence is an episode or another memory.';

create view reme.task_scoreboard with (security_invoker) as
select workspace_id, task_id, count(*) as episodes, avg(score) as mean_score, max(score) as best_score,
       count(*) filter (where score >= 1) as solved, avg(steps) as mean_steps, max(finished_at) as last_attempt
from reme.episode
group by workspace_id, task_id;
comment on view reme.task_scoreboard is 'For each task, how many episodes there were and how they went.';
comment on column reme.task_scoreboard.episodes is 'How often it was attempted.';
comment on column reme.task_scoreboard.mean_score is 'Mean score of all attempts.';
comment on column reme.task_scoreboard.best_score is 'The best score so far.';
comment on column reme.task_scoreboard.solved is 'How many attempts had a score of 1.';
comment on column reme.task_scoreboard.mean_steps is 'Mean number of steps of an attempt.';
comment on column reme.task_scoreboard.last_attempt is 'When the last attempt ended.';

create view reme.recall_log with (security_invoker) as
select r.workspace_id, r.asked_at, r.query, h.rank, h.kind, coalesce(m.content, said.content) as content,
       h.vector, h.lexical, h.time, h.type, h.final, h.helped, r.milliseconds, r.flow, r.retrieval_id, h.memory_id,
       h.relevance, h.left_out, r.note_id, r.session_id
from reme.retrieval r
left join reme.retrieval_hit h using (workspace_id, retrieval_id)
left join reme.memory m on h.kind <> 'conversation' and m.workspace_id = h.workspace_id and m.memory_id = h.memory_id
left join reme.message said
    on h.kind = 'conversation' and said.workspace_id = h.workspace_id and said.message_id = h.memory_id;
comment on view reme.recall_log is 'What was recalled for which query, at which rank, and why.';
comment on column reme.recall_log.content is 'What was recalled, in its present words; empty if it is no longer there.';

create view reme.usage_by_day with (security_invoker) as
select workspace_id, called_at::date as day, provider, model, purpose, count(*) as calls,
       count(*) filter (where not ok) as failures, sum(prompt_tokens) as prompt_tokens,
       sum(completion_tokens) as completion_tokens, sum(milliseconds) / 1000 as seconds
from reme.model_call
group by workspace_id, called_at::date, provider, model, purpose;
comment on view reme.usage_by_day is 'Model calls, tokens and time by day.';
comment on column reme.usage_by_day.day is 'The day of the calls, in the time zone of the session that asks.';
comment on column reme.usage_by_day.calls is 'How many calls there were.';
comment on column reme.usage_by_day.failures is 'How many of them failed.';
comment on column reme.usage_by_day.prompt_tokens is 'Tokens sent, all calls together.';
comment on column reme.usage_by_day.completion_tokens is 'Tokens received, all calls together.';
comment on column reme.usage_by_day.seconds is 'Time of all calls together.';

create view reme.tool_statistics with (security_invoker) as
select workspace_id, tool_name, count(*) as calls,
       count(*) filter (where success) as successes,
       count(*) filter (where success) / count(*)::double precision as success_rate,
       avg(score) as mean_score,
       percentile_cont(0.5) within group (order by time_cost) as time_p50,
       percentile_cont(0.95) within group (order by time_cost) as time_p95,
       percentile_cont(0.5) within group (order by token_cost) as tokens_p50,
       percentile_cont(0.95) within group (order by token_cost) as tokens_p95,
       (array_agg(error order by called_at desc, number desc) filter (where error <> ''))[1:5] as recent_errors,
       max(called_at) as last_called_at,
       count(*) filter (where summarised_at is null) as not_summarised
from reme.tool_call_result
group by workspace_id, tool_name;
comment on view reme.tool_statistics is 'For each tool its success rate, the seconds and tokens of its calls, and its five newest errors.';
comment on column reme.tool_statistics.calls is 'How often it was called.';
comment on column reme.tool_statistics.successes is 'How many of the calls succeeded.';
comment on column reme.tool_statistics.success_rate is 'Share of the calls that succeeded, 0 to 1.';
comment on column reme.tool_statistics.mean_score is 'Mean score of its calls.';
comment on column reme.tool_statistics.time_p50 is 'Median of the seconds a call took.';
comment on column reme.tool_statistics.time_p95 is '95th percentile of the seconds a call took.';
comment on column reme.tool_statistics.tokens_p50 is 'Median of the tokens a call cost.';
comment on column reme.tool_statistics.tokens_p95 is '95th percentile of the tokens a call cost.';
comment on column reme.tool_statistics.recent_errors is 'Its five newest errors, the newest first.';
comment on column reme.tool_statistics.last_called_at is 'When it was last called.';
comment on column reme.tool_statistics.not_summarised is 'How many calls no guidance was made from yet.';

create view reme.learning_curve with (security_invoker) as
select workspace_id, task_id, attempt, score,
       avg(score) over (tries rows between unbounded preceding and current row) as mean_score,
       avg(score) over (tries rows between 9 preceding and current row) as mean_of_last_10,
       max(score) over (tries rows between unbounded preceding and current row) as best_score,
       episode_id
from reme.episode_score
window tries as (partition by workspace_id, task_id order by attempt);
comment on view reme.learning_curve is 'Score of each attempt at each task, with the mean so far, the mean of the last ten and the best so far.';
comment on column reme.learning_curve.mean_score is 'Mean score of this attempt and all before it.';
comment on column reme.learning_curve.mean_of_last_10 is 'Mean score of this attempt and the nine before it.';
comment on column reme.learning_curve.best_score is 'The best score up to this attempt.';

-- Columns that a view shows as they stand in a table get the table's comments.
do $$
declare
    shown record;
begin
    for shown in
        select of_view.attrelid::regclass as view, of_view.attname as name,
               col_description(of_table.attrelid, of_table.attnum) as comment
        from (values ('memory_current', 'memory'), ('memory_timeline', 'memory'), ('memory_lineage', 'memory'),
                     ('memory_lineage', 'memory_source'), ('task_scoreboard', 'episode'), ('recall_log', 'retrieval'),
                     ('recall_log', 'retrieval_hit'), ('usage_by_day', 'model_call'),
                     ('tool_statistics', 'tool_call_result'), ('learning_curve', 'episode_score')) as pairs (of_view, of_table)
        join pg_attribute of_view on of_view.attrelid = ('reme.' || pairs.of_view)::regclass
        join pg_attribute of_table
            on of_table.attrelid = ('reme.' || pairs.of_table)::regclass and of_table.attname = of_view.attname
        where of_table.attnum > 0 and col_description(of_view.attrelid, of_view.attnum) is null
    loop
        execute format('comment on column %s.%I is %L', shown.view, shown.name, shown.comment);
    end loop;
end $$;


-- Functions -----------------------------------------------------------------------------------------------------------
-- In PL/pgSQL: functions in SQL cannot hand their parameters to a table that Citus distributes.

-- A superseded memory held until then, and we still know that it did: asked what held in May, memory_as_of answers with the
-- home that was given up in June. It leaves a superseded memory out where its successor holds at that time as well, since
-- that one says the same, or more. A deleted or expired one is taken as never having held.
create function reme.memory_as_of(workspace text, moment timestamptz, held_at timestamptz default null)
returns setof reme.memory language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    with known as materialized (
        select k.*
        from (
            select distinct on (memory_id) after
            from reme.memory_history
            where memory_history.workspace_id = memory_as_of.workspace and changed_at <= moment
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
                                          and successor.valid_during @> held_at)) end;
end $$;
comment on function reme.memory_as_of is 'The memories that were active at a moment, in the words of that time; with held_at, those that held at that time, superseded since or not.';

create function reme.pass_at_k(workspace text, k integer, solved_from double precision default 1.0)
returns table (task_id text, attempts bigint, groups bigint, passed bigint, pass_at_k double precision)
language plpgsql stable as $$
#variable_conflict use_column
begin
    return query
    -- The attempts at a task in groups of k, in order; a last group that is not full is left out.
    with grouped as (
        select s.task_id, (s.attempt - 1) / pass_at_k.k as batch, count(*) as size, max(s.score) >= solved_from as solved
        from reme.episode_score s
        where s.workspace_id = workspace
        group by s.task_id, (s.attempt - 1) / pass_at_k.k
    )
    select g.task_id, sum(g.size)::bigint, count(*) filter (where g.size = pass_at_k.k),
           count(*) filter (where g.size = pass_at_k.k and g.solved),
           count(*) filter (where g.size = pass_at_k.k and g.solved)::double precision
               / nullif(count(*) filter (where g.size = pass_at_k.k), 0)
    from grouped g
    group by g.task_id
    order by g.task_id;
end $$;
comment on function reme.pass_at_k is 'For each task the share of its groups of k attempts whose best reached solved_from; empty where there is no full group.';
