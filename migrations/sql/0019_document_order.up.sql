-- Segments of postings list their documents in order, so that recall can look one up in them.
update reme.posting p
set (documents, impacts) = (
    select array_agg(document_id order by document_id), array_agg(impact order by document_id)
    from unnest(p.documents, p.impacts) as held (document_id, impact)
);
comment on table reme.posting is 'The lexical leg. A row is a segment: documents that hold a term, in order, with BM25 impacts computed at write time.';
comment on column reme.posting.documents is 'The document_id of the memories or messages, in order, at most 512; a document occurs once for a term.';
