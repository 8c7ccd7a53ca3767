/* The page that is one file: its model is in it. */
import { explore } from "./explorer.js";
import { localModel } from "./local.js";

const read = (id) => JSON.parse(document.getElementById(id).textContent);

async function open() {
  try {
    await explore(localModel(read("portrait"), read("model")));
  } catch (error) {
    const trouble = document.getElementById("trouble");
    trouble.textContent = error.message;
    trouble.hidden = false;
  }
}

open();
