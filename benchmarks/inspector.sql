-- What beside memories fills the large workspace of benchmarks/inspector.py; {messages} and {tenth} are numbers.

insert into reme.workspace (workspace_id) select 'small-' || n from generate_series(1, 200) n;
insert into reme.message (workspace_id, message_id, session_id, position, role, content, sent_at, recorded_at,
                          embedded_at, summarised_at)
select 'large', 'm' || n, 's' || n / 20, n % 20 + 1, case n % 2 when 0 then 'user' else 'assistant' end,
       'Question ' || n / 2 || ' about the matter at hand', moment, moment, now(), nullif(now(), case n % 50 when 0 then now() end)
from generate_series(0, {messages} - 1) n, lateral (select now() - (n % 90) * interval '1 day' as moment) as t;
insert into reme.memory_source (workspace_id, memory_id, source_kind, source_id)
select 'large', memory_id, 'message', 'm' || row_number() over () % {messages} from reme.memory where workspace_id = 'large';
insert into reme.retrieval (workspace_id, retrieval_id, asked_at, query, flow, session_id, relevance, note_id, milliseconds)
select 'large', 'r' || n, now() - n * interval '1 minute', 'Question ' || n / 2 || ' about the matter at hand', 'turn',
       's' || n / 20, 0.5, 'n' || n / 2, 3
from generate_series(0, {tenth} - 1) n;
insert into reme.retrieval_hit (workspace_id, retrieval_id, rank, memory_id, kind, vector, lexical, final, relevance, left_out)
select 'large', 'r' || n % {tenth}, n / {tenth} + 1, memory_id, kind, .5, .5, .5, .5, case n / {tenth} when 9 then 'budget' else '' end
from (select memory_id, kind, row_number() over () - 1 as n from reme.memory where workspace_id = 'large') as m;
insert into reme.model_call (workspace_id, called_at, purpose, provider, model, prompt_tokens, milliseconds, ok)
select 'large', now() - n * interval '5 minutes', 'read', 'openai', 'model', 100, 50, true from generate_series(1, {tenth}) n;
insert into reme.tool_call_result (workspace_id, call_hash, tool_name, time_cost)
select 'large', 'c' || n, 'tool-' || n % 50, n from generate_series(1, {tenth}) n;
insert into reme.episode (workspace_id, episode_id, number, task_id, score)
select 'large', 'e' || n, n, 'task-' || n % 30, (n % 10) / 10.0 from generate_series(1, {tenth}) n;
insert into reme.episode_score (workspace_id, task_id, attempt, score)
select 'large', 'task-' || n % 30, n / 30 + 1, (n % 10) / 10.0 from generate_series(1, {tenth}) n;
update reme.memory set content = content || ' (mended)', freq = 6, utility = 2 where workspace_id = 'large' and document_id % 10 = 0;
update reme.memory set valid_during = tstzrange(now() - document_id % 1000 * interval '1 day', null), subject = 'person-' || document_id % 500
where workspace_id = 'large' and document_id % 2 = 0;
