-- name: insert_calls
insert into reme.tool_call_result (workspace_id, number, ${columns})
overriding system value
select w.workspace_id, number, ${columns}
from reme.workspace w cross join jsonb_populate_recordset(null::reme.tool_call_result, %(rows)s) as row
where w.workspace_id = %(workspace)s
on conflict (workspace_id, call_hash) do nothing
returning call_hash

-- name: statistics
select tool_name, calls, successes, success_rate, mean_score, time_p50, time_p95, tokens_p50, tokens_p95,
       coalesce(recent_errors, '{}'), last_called_at, not_summarised,
       recent.token_cost, recent.time_cost, recent.score
from reme.tool_statistics
cross join lateral (
    select coalesce(avg(newest.token_cost), 0)::double precision as token_cost,
           coalesce(avg(newest.time_cost), 0) as time_cost, coalesce(avg(newest.score), 0) as score
    from (select c.token_cost, c.time_cost, c.score from reme.tool_call_result c
          where c.workspace_id = %(workspace)s and c.tool_name = tool_statistics.tool_name
          order by c.called_at desc, c.number desc limit 20) newest) recent
where workspace_id = %(workspace)s and (%(tools)s::text[] is null or tool_name = any(%(tools)s))
order by tool_name

-- name: newest_calls
select ${columns}
from unnest(%(tools)s::text[]) asked (tool)
cross join lateral (
    select * from reme.tool_call_result
    where workspace_id = %(workspace)s and tool_name = asked.tool
    order by called_at desc, number desc limit %(limit)s) newest
order by called_at, number

-- name: judge_calls
update reme.tool_call_result c set summary = j.summary, evaluation = j.evaluation, score = j.score
from jsonb_to_recordset(%(rows)s) as j (call_hash text, summary text, evaluation text, score double precision)
where c.workspace_id = %(workspace)s and c.call_hash = j.call_hash

-- name: waiting_calls
select tool_name, array_agg(call_hash) from reme.tool_call_result
where workspace_id = %(workspace)s and summarised_at is null and (%(tools)s::text[] is null or tool_name = any(%(tools)s))
group by tool_name

-- name: guidance_of
select memory_id from reme.memory
where workspace_id = %(workspace)s and kind = 'tool' and status = 'active' and subject = any(%(tools)s)
