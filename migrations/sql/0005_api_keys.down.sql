-- Takes all keys away: the services ask for none afterwards.
drop table reme.api_key;
