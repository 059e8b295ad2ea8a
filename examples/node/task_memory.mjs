// Task memory with Node's fetch. Start `reme serve` first.
const service = process.env.REME_URL ?? "http://127.0.0.1:8002";

async function post(flow, body) {
  const response = await fetch(`${service}/${flow}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ workspace_id: "node_agent", ...body }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${answer.code}: ${answer.message} (${answer.request_id})`);
  return answer;
}

await post("summary_task_memory", {
  trajectories: [
    {
      task_id: "refund",
      score: 1.0,
      messages: [
        { role: "user", content: "Refund order A17" },
        { role: "assistant", tool_calls: [{ id: "1", name: "refund", arguments: '{"order": "A17"}' }] },
        { role: "tool", tool_call_id: "1", content: '{"error": "look up the payment id first"}' },
        { role: "assistant", tool_calls: [{ id: "2", name: "payment_of", arguments: '{"order": "A17"}' }] },
        { role: "tool", tool_call_id: "2", content: '{"payment": "P4"}' },
        { role: "assistant", tool_calls: [{ id: "3", name: "refund", arguments: '{"payment": "P4"}' }] },
        { role: "tool", tool_call_id: "3", content: '{"status": "ok"}' },
      ],
    },
  ],
});

const found = await post("retrieve_task_memory", { query: "Refund an order", top_k: 2 });
console.log(found.answer);
