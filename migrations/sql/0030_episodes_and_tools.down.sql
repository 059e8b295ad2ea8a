drop table reme.tool_call_result, reme.mistake_card, reme.episode_finding, reme.episode_rule, reme.episode_score,
    reme.episode_progress, reme.episode;
