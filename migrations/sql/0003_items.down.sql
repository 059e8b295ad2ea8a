drop table reme.item_embedding, reme.item;
drop function reme.number_in;
drop sequence reme.item_place;
