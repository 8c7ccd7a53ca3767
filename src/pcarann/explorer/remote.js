/* A model behind the Open Inference Protocol: {describe, infer} over HTTP, tensors as bytes. */

/** The names of all models of the server. */
export async function modelNames(token) {
  const answer = await asked("explore/models", { headers: bearing(token) });
  return (await answer.json()).models;
}

/** The model of this name. `infer` rejects with an Error whose message is one sentence. */
export function remoteModel(name, token) {
  const at = encodeURIComponent(name);
  let mark; // of the file that was described, or of one before it, so that no change is missed
  return {
    async describe() {
      mark = await markNow();
      return (await asked(`explore/portrait/${at}`, { headers: bearing(token) })).json();
    },
    async infer(inputs, { outputs, alpha, signal, warn } = {}) {
      const { head, body } = written(inputs, outputs, alpha);
      const headers = { ...bearing(token), "Inference-Header-Content-Length": String(head) };
      headers["Content-Type"] = "application/octet-stream";
      try {
        const answer = await asked(`v2/models/${at}/versions/${mark}/infer`, { method: "POST", headers, body, signal });
        return read(await answer.arrayBuffer(), answer.headers.get("Inference-Header-Content-Length"), warn);
      } catch (error) {
        if (error.status === 404 && (await markNow()) !== mark) throw changed(); // a server keeps the last version alone
        throw error;
      }
    },
  };

  async function markNow() {
    return (await (await asked(`v2/models/${at}`, { headers: bearing(token) })).json()).parameters.mark;
  }
}

function changed() {
  return Object.assign(new Error("The model has changed: reload the page."), { status: 409, changed: true });
}

function bearing(token) {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function asked(address, options) {
  let answer;
  try {
    answer = await fetch(address, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer.");
  }
  if (answer.ok) return answer;
  let why = `The server refused with status ${answer.status}.`;
  try {
    why = (await answer.json()).error ?? why;
  } catch {
    /* an answer without a sentence of its own */
  }
  throw Object.assign(new Error(why), { status: answer.status });
}

function written(inputs, outputs, alpha) {
  const tensors = Object.entries(inputs);
  const request = {
    inputs: tensors.map(([name, { shape, data }]) => ({
      name,
      shape,
      datatype: "FP64",
      parameters: { binary_data_size: 8 * data.length },
    })),
    outputs: outputs.map((name) => ({ name, parameters: { binary_data: true } })),
    parameters: alpha === undefined ? {} : { alpha },
  };
  const head = new TextEncoder().encode(JSON.stringify(request));
  const parts = tensors.map(([, { data }]) => Float64Array.from(data));
  return { head: head.length, body: new Blob([head, ...parts]) };
}

function read(buffer, length, warn) {
  const head = length === null ? buffer.byteLength : Number(length);
  const answer = JSON.parse(new TextDecoder().decode(buffer.slice(0, head)));
  const found = {};
  let at = head;
  for (const { name, shape, datatype, data, parameters } of answer.outputs) {
    if (data) {
      found[name] = { shape, data: Float64Array.from(data, (value) => value ?? NaN) };
      continue;
    }
    const bytes = buffer.slice(at, (at += parameters.binary_data_size));
    found[name] = { shape, data: datatype === "FP32" ? Float64Array.from(new Float32Array(bytes)) : new Float64Array(bytes) };
  }
  const said = answer.parameters?.warning;
  if (said && warn) warn(said);
  return found;
}
