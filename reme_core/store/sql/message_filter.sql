-- Filters of messages, each a condition on a row `m` of reme.message, by the name of the field of `Filters` that asks for
-- it. A message has no kind, subject, status or score, so those filters let it through.

-- name: as_of
m.recorded_at <= %(as_of)s

-- name: held_at
m.sent_at <= %(held_at)s

-- name: known
m.recorded_at >= coalesce(%(known_start)s::timestamptz, '-infinity')
and m.recorded_at < coalesce(%(known_end)s::timestamptz, 'infinity')

-- name: happened
m.sent_at <@ %(happened)s::tstzrange

-- name: metadata
m.metadata @> %(metadata)s

-- name: author
m.author = %(author)s

-- name: user_id
m.user_id = %(user_id)s

-- name: agent_id
m.agent_id = %(agent_id)s

-- name: run_id
m.run_id = %(run_id)s

-- name: session_id
m.session_id = %(session_id)s

-- name: ids
m.message_id = any(%(ids)s)

-- name: without
-- As a subquery the list is hashed once: it may be long, and a workspace larger.
m.message_id not in (select unnest(%(without)s::text[])) and m.content not in (select unnest(%(without)s::text[]))
