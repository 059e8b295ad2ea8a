update reme.posting p
set (documents, impacts) = (
    select array_agg(document_id order by impact desc), array_agg(impact order by impact desc)
    from unnest(p.documents, p.impacts) as held (document_id, impact)
);
comment on table reme.posting is 'The lexical leg. A row is a segment: documents that hold a term, the best first, with BM25 impacts computed at write time.';
comment on column reme.posting.documents is 'The document_id of the memories or messages, at most 512; a document occurs once for a term.';
