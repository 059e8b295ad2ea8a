// Personal memory with Node's fetch. Start `reme serve` first.
const service = process.env.REME_URL ?? "http://127.0.0.1:8002";

async function post(flow, body) {
  const response = await fetch(`${service}/${flow}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ workspace_id: "bob", ...body }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${answer.code}: ${answer.message} (${answer.request_id})`);
  return answer;
}

await post("summary_personal_memory", {
  trajectories: [{ messages: [{ role: "user", content: "I play the cello on Tuesdays." }] }],
});

const found = await post("retrieve_personal_memory", { query: "Which instrument does he play?", top_k: 3 });
console.log(found.answer);
