-- Memories in use that were given often and seldom helped. They are few, and the index holds these alone.
create index memory_junk on reme.memory (workspace_id, kind)
    where status = 'active' and freq >= 5 and utility::bigint * 2 < freq;
