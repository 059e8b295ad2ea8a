#!/bin/sh
# Personal memory with curl, and a look at what is stored. Start `reme serve` first.
set -eu
service="${REME_URL:-http://127.0.0.1:8002}"

curl -sS --fail-with-body "$service/summary_personal_memory" -H "Content-Type: application/json" -d '{
  "workspace_id": "alice",
  "trajectories": [{"messages": [{"role": "user", "content": "I am allergic to peanuts."}]}]
}'
echo

curl -sS --fail-with-body "$service/retrieve_personal_memory" -H "Content-Type: application/json" -d '{
  "workspace_id": "alice", "query": "What can she not eat?", "top_k": 3
}'
echo

curl -sS --fail-with-body "$service/v1/workspaces/alice/memories"
echo
