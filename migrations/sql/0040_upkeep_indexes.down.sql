drop index reme.memory_unread;
drop index reme.memory_updated;
