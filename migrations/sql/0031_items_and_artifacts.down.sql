drop table reme.artifact;
drop function reme.number_in;
drop table reme.item_embedding, reme.item;
drop sequence reme.item_place;
