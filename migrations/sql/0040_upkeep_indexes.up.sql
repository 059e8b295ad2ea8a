-- Each worker looks four times a minute for what is to be reflected upon, and for what no chat model has read. In workspaces where
-- nothing happens, it read all memories each time.
create index memory_updated on reme.memory (workspace_id, updated_at);
create index memory_unread on reme.memory (workspace_id)
    where status = 'active' and metadata @> '{"mode": "quoted"}' and not metadata ? 'read';
