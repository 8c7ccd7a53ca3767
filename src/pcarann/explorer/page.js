/* The page of a server: which model is asked for, and how it is reached. */
import { made } from "./controls.js";
import { explore } from "./explorer.js";
import { modelNames, remoteModel } from "./remote.js";

const door = document.getElementById("door");

async function open(token) {
  door.hidden = true;
  try {
    const names = await modelNames(token);
    const asked = new URLSearchParams(location.search).get("model");
    const name = asked ?? names[0];
    if (!names.includes(name)) return told(`There is no model ${asked}: the server has `, ...links(names), ".");
    offer(names, name);
    await explore(remoteModel(name, token));
  } catch (error) {
    if (error.status === 401) {
      door.hidden = false;
      document.getElementById("token").focus();
      if (!token) return;
    }
    told(error.message);
  }
}

function told(...words) {
  const trouble = document.getElementById("trouble");
  trouble.replaceChildren(...words);
  trouble.hidden = false;
}

/** Links to models, with commas between them. */
function links(names) {
  return names.flatMap((name, i) => [...(i ? [", "] : []), made("a", { href: `?model=${encodeURIComponent(name)}` }, name)]);
}

function offer(names, name) {
  const select = document.getElementById("models");
  select.replaceChildren(...names.map((one) => new Option(one, one, one === name, one === name)));
  document.getElementById("models-label").hidden = names.length < 2;
  select.addEventListener("change", () => location.assign(`?model=${encodeURIComponent(select.value)}`));
}

door.addEventListener("submit", (event) => {
  event.preventDefault();
  open(document.getElementById("token").value);
});
open();
