-- Filters of memories and messages alike, each a condition on a row `m`, by the name of the field of `Filters` that asks for it.

-- name: known
m.recorded_at >= coalesce(%(known_start)s::timestamptz, '-infinity')
and m.recorded_at < coalesce(%(known_end)s::timestamptz, 'infinity')

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
