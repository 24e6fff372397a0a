// Questions to the server of this machine.

const PATIENCE_MS = 3000;
const waiting = new Set();
let answered = false; // the first answer waits for the simulator's start

function tell() {
  const words = "The simulator is starting. After an installation it compiles itself once, which takes a minute or two; what you choose meanwhile is answered then.";
  document.getElementById("starting")?.remove();
  if (answered || !waiting.size) return;
  const line = Object.assign(document.createElement("p"), { id: "starting", className: "verdict", role: "status", textContent: words });
  document.getElementById("room").before(line);
}

/** The answer to a question; rejects with what the server says against it. */
export async function ask(name, values = {}) {
  const own = setTimeout(() => { waiting.add(own); tell(); }, PATIENCE_MS);
  try {
    const answer = await send(name, values);
    answered ||= name !== "stop" && answer.late === undefined;
    return answer;
  } finally {
    clearTimeout(own);
    waiting.delete(own);
    tell();
  }
}

async function send(name, values) {
  const response = await fetch(`/ask/${name}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) });
  if (!response.ok) throw new Error((await response.json().catch(() => null))?.error ?? `the server answered ${response.status}`);
  return response.json();
}
