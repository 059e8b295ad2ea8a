#!/bin/sh
# Task memory with curl. Start `reme serve` first.
set -eu
service="${REME_URL:-http://127.0.0.1:8002}"

curl -sS --fail-with-body "$service/summary_task_memory" -H "Content-Type: application/json" -d '{
  "workspace_id": "planner",
  "trajectories": [{
    "task_id": "plan", "score": 1.0,
    "messages": [
      {"role": "user", "content": "帮我制定项目计划"},
      {"role": "assistant", "content": "先列出里程碑，再为每个里程碑估计时间。"}
    ]
  }]
}'
echo

curl -sS --fail-with-body "$service/retrieve_task_memory" -H "Content-Type: application/json" -d '{
  "workspace_id": "planner", "query": "如何高效管理项目进度？", "top_k": 1
}'
echo
