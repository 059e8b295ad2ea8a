-- The messages that recall leaves out, since somebody asked to forget what they say.
create index memory_forgotten on reme.memory (workspace_id) where status = 'expired' and metadata ? 'forgotten';
