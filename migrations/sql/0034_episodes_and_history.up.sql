-- What the memory itself keeps of an episode stands beside the caller's metadata, in which any key is the caller's.

alter table reme.episode add column mistake_cards jsonb not null default '[]', add column file_entry jsonb;
comment on column reme.episode.mistake_cards is 'The mistake cards of the attempt, as they were recorded with it.';
comment on column reme.episode.file_entry is 'Its entry in the log of an imported agent_memory.json; empty: the other columns give it back.';

update reme.episode set mistake_cards = metadata -> 'mistake_cards', metadata = metadata - 'mistake_cards'
where jsonb_path_exists(metadata, '$.mistake_cards[*].mistake_type');
update reme.episode set file_entry = metadata -> 'agent_memory', metadata = metadata - 'agent_memory'
where metadata -> 'agent_memory' ?& array['task_id', 'score'];

-- An attempt whose lessons a model could not make goes on waiting for them.
alter table reme.episode add column lessons_asked_at timestamptz;
comment on column reme.episode.lessons_asked_at is 'Since when task memories are to be made of it; empty: none are waited for.';
create index episode_lessons on reme.episode (workspace_id, lessons_asked_at) where lessons_asked_at is not null;

-- A session plans the trigger's join once, for the few rows of its first change. As a nested loop it took half a minute for the
-- next change, of four thousand rows.
alter function reme.write_memory_history() set enable_nestloop = off;
