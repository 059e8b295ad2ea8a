-- Artifacts: what left the window of a conversation.

-- name: put
-- In the order of their handles, so that two writers cannot deadlock. One that was erased in part stays as it is.
insert into reme.artifact (workspace_id, artifact_id, session_id, number, kind, source, content, summary, author, used_at)
overriding system value
select w.workspace_id, artifact_id, %(session)s, number, kind, source, content, summary, author, now()
from reme.workspace w
cross join jsonb_to_recordset(%(rows)s)
    as given (artifact_id text, number bigint, kind text, source text, content text, summary text, author text)
where w.workspace_id = %(workspace)s
order by artifact_id
on conflict (workspace_id, artifact_id) do update
set summary = excluded.summary, author = excluded.author, used_at = excluded.used_at
where artifact.kind = 'turns' or excluded.used_at - artifact.used_at > interval '1 day' -- Citus takes no now() here

-- name: use
-- Which of these there are. What a conversation refers to does not expire, and all that left it can be searched; but those
-- without a name are many conversations. A day is near enough, and writes seldom.
with used as (
    update reme.artifact set used_at = now()
    where workspace_id = %(workspace)s and used_at < now() - interval '1 day'
      and (session_id = nullif(%(session)s, '') or artifact_id = any(%(handles)s))
)
select artifact_id, summary from reme.artifact
where workspace_id = %(workspace)s and artifact_id = any(%(handles)s)

-- name: list
select artifact_id, kind, source, length(content), created_at
from reme.artifact
where workspace_id = %(workspace)s and session_id = %(session)s
order by number

-- name: read
select source, substr(content, %(offset)s + 1, %(size)s), length(content)
from reme.artifact
where workspace_id = %(workspace)s and artifact_id = %(handle)s

-- name: grep
-- One match a line: after each, the search goes on behind the line, or behind the part of a long line that is shown.
-- An empty text is searched, too, so that a bad pattern is refused also where there is no artifact.
with recursive searched as (
    select '' as artifact_id, '' as source, '' as content, 0::bigint as number
    union all
    select artifact_id, source, content, number
    from reme.artifact
    where workspace_id = %(workspace)s
      and case when %(handle)s <> '' then artifact_id = %(handle)s else session_id = %(session)s end
), found as (
    select s.*, 1 as nth, regexp_instr(s.content, %(pattern)s, 1, 1, 0, 'in') as at
    from searched s
    union all
    select f.artifact_id, f.source, f.content, f.number, f.nth + 1,
           regexp_instr(f.content, %(pattern)s, f.at + shown.length, 1, 0, 'in')
    from found f
    cross join lateral (
        select coalesce(nullif(strpos(substr(f.content, f.at, %(shown)s), E'\n'), 0), %(shown)s)
    ) shown (length)
    where f.at > 0 and f.nth < %(limit)s and f.at + shown.length <= length(f.content)
)
select artifact_id, source, at, substr(content, greatest(at - %(shown)s, 1), at - greatest(at - %(shown)s, 1)),
       substr(content, at, %(shown)s)
from found
where at > 0 and artifact_id <> ''
order by number desc, at
limit %(limit)s

-- name: erase
with erased as (
    delete from reme.artifact where workspace_id = %(workspace)s and session_id = %(session)s returning 1
)
select count(*) from erased
