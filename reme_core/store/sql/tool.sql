-- name: insert_calls
insert into reme.tool_call_result (workspace_id, call_hash, tool_name, input, output, success, error, time_cost, token_cost,
                                   summary, evaluation, score, called_at, summarised_at, metadata)
select %(workspace)s, call_hash, tool_name, input, output, success, error, time_cost, token_cost,
       summary, evaluation, score, called_at, summarised_at, metadata
from jsonb_populate_recordset(null::reme.tool_call_result, %(rows)s)
on conflict (workspace_id, call_hash) do nothing
returning call_hash

-- name: statistics
select tool_name, calls, successes, success_rate, mean_score, time_p50, time_p95, tokens_p50, tokens_p95,
       coalesce(recent_errors, '{}'), last_called_at, not_summarised
from reme.tool_statistics
where workspace_id = %(workspace)s and (%(tools)s::text[] is null or tool_name = any(%(tools)s))
order by tool_name

-- name: newest_calls
select call_hash, tool_name, input, output, success, error, time_cost, token_cost, summary, evaluation, score, called_at,
       summarised_at, metadata
from (select * from reme.tool_call_result
      where workspace_id = %(workspace)s and tool_name = %(tool)s
      order by called_at desc, number desc limit %(limit)s) newest
order by called_at, number

-- name: mark_calls
update reme.tool_call_result set summarised_at = now()
where workspace_id = %(workspace)s and tool_name = %(tool)s and called_at <= %(until)s and summarised_at is null

-- name: guidance_of
select memory_id from reme.memory
where workspace_id = %(workspace)s and kind = 'tool' and status = 'active' and subject = any(%(tools)s)
