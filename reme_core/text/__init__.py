"""Reading of texts by rules: languages, times, wishes, secrets, ids."""
