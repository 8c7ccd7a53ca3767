/* The page of a server: which model is asked for, and how it is reached. */
import { explore } from "./explorer.js";
import { modelNames, remoteModel } from "./remote.js";

const door = document.getElementById("door");

async function open(token) {
  door.hidden = true;
  try {
    const names = await modelNames(token);
    const asked = new URLSearchParams(location.search).get("model");
    const name = asked ?? names[0];
    if (!names.includes(name)) throw new Error(`There is no model ${asked}: the server has ${names.join(", ")}.`);
    offer(names, name);
    await explore(remoteModel(name, token));
  } catch (error) {
    if (error.status === 401) {
      door.hidden = false;
      document.getElementById("token").focus();
      if (!token) return;
    }
    const trouble = document.getElementById("trouble");
    trouble.textContent = error.message;
    trouble.hidden = false;
  }
}

function offer(names, name) {
  const select = document.getElementById("models");
  select.replaceChildren(...names.map((one) => new Option(one, one, one === name, one === name)));
  document.getElementById("models-label").hidden = names.length < 2;
  select.addEventListener("change", () => location.assign(`?model=${encodeURIComponent(select.value)}`));
}

const enter = () => open(document.getElementById("token").value);
document.getElementById("enter").addEventListener("click", enter);
document.getElementById("token").addEventListener("keydown", (event) => event.key === "Enter" && enter());
open();
