// Questions to the server of this machine.

/** The answer to a question; rejects with what the server says against it. */
export async function ask(name, values = {}) {
  const response = await fetch(`/ask/${name}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(values) });
  if (!response.ok) throw new Error((await response.json().catch(() => null))?.error ?? `the server answered ${response.status}`);
  return response.json();
}
