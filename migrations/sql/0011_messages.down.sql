drop table reme.message;
