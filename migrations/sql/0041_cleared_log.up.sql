-- What a model answered, and was logged when its workspace had been cleared, stayed: a workspace that is gone has no erased_at.
-- So did what it answered after an erasure to somebody who had read before it. A call of a workspace that was never there yet
-- loses its text, too: nothing tells it from one that was cleared.
create or replace function reme.log_model_calls(entries jsonb) returns void language plpgsql as $$
declare
    entry record;
    workspace record;
begin
    for entry in
        select * from jsonb_to_recordset(entries)
            as e (workspace_id text, begun_at timestamptz, called_at timestamptz, purpose text, provider text, model text,
                  prompt_tokens integer, completion_tokens integer, milliseconds real, ok boolean, error text, raw text)
    loop
        select w.created_at, w.erased_at into workspace from reme.workspace w where w.workspace_id = entry.workspace_id;
        if entry.workspace_id <> '' and (not found or entry.called_at <= workspace.created_at
                                         or coalesce(entry.begun_at, entry.called_at) <= workspace.erased_at) then
            entry.error := '';
            entry.raw := '';
        end if;
        insert into reme.model_call (workspace_id, called_at, purpose, provider, model, prompt_tokens, completion_tokens,
                                     milliseconds, ok, error, raw)
        values (entry.workspace_id, entry.called_at, entry.purpose, entry.provider, entry.model, entry.prompt_tokens,
                entry.completion_tokens, entry.milliseconds, entry.ok, entry.error, entry.raw);
    end loop;
end $$;
comment on function reme.log_model_calls is 'Writes model_call; a text from before a workspace was begun, cleared or partly erased may hold what is gone, and is left out.';
