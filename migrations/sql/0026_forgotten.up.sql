-- Memories that name messages which recall leaves out.
create index memory_forgotten on reme.memory (workspace_id) where status <> 'active' and metadata ? 'forgotten';
