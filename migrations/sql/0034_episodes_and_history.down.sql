update reme.episode set metadata = jsonb_set(metadata, '{mistake_cards}', mistake_cards) where mistake_cards <> '[]';
update reme.episode set metadata = jsonb_set(metadata, '{agent_memory}', file_entry) where file_entry is not null;
alter table reme.episode drop column mistake_cards, drop column file_entry, drop column lessons_asked_at;
alter function reme.write_memory_history() reset enable_nestloop;
