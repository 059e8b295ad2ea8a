-- What erasure leaves behind: when it happened, so that whatever still holds the words is not written afterwards.

alter table reme.workspace add column erased_at timestamptz;
comment on column reme.workspace.erased_at is 'When something was last erased from it; log entries from before then are not taken any more.';

alter table reme.message add column erased_at timestamptz;
comment on column reme.message.erased_at is 'When its words were taken out; the row stays, so that the same message recorded again adds nothing.';

-- Postings are deleted document by document; a key of eight bytes that only grows costs an insert half as much.
drop index reme.posting_document;
create index posting_document on reme.posting (document_id);

-- Cutting wordings out of texts, whatever the letter case.
create function reme.without(value text, wordings text[]) returns text language plpgsql immutable parallel safe as $$
declare
    wording text;
begin
    foreach wording in array wordings loop
        value := regexp_replace(value, regexp_replace(wording, '([^[:alnum:][:space:]])', '\\\1', 'g'), '', 'gi');
    end loop;
    return value;
end $$;
comment on function reme.without(text, text[]) is 'A text without the given wordings.';

create function reme.without(value text[], wordings text[]) returns text[] language sql immutable parallel safe as $$
    select array(
        select reme.without(item, wordings) from unnest(value) with ordinality as element (item, place)
        where reme.without(item, wordings) <> '' or item = ''
        order by place
    )
$$;
comment on function reme.without(text[], text[]) is 'An array of texts without the given wordings; items that consist of one go.';

create function reme.without(value jsonb, wordings text[]) returns jsonb language plpgsql immutable parallel safe as $$
begin
    return case jsonb_typeof(value)
        when 'string' then to_jsonb(reme.without(value #>> '{}', wordings))
        when 'array' then coalesce(
            (select jsonb_agg(reme.without(item, wordings) order by place)
             from jsonb_array_elements(value) with ordinality as element (item, place)), '[]')
        when 'object' then coalesce(
            (select jsonb_object_agg(reme.without(name, wordings), reme.without(item, wordings))
             from jsonb_each(value) as member (name, item)), '{}')
        else value
    end;
end $$;
comment on function reme.without(jsonb, text[]) is 'A JSON value without the given wordings, in its names and its texts.';
