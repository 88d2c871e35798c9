"use strict";
// Remove the token from the address, so that neither the history nor a screenshot shows it.
const token = location.hash.slice(1);
history.replaceState(null, "", location.pathname);

const NAMES = {
  passport: "passport",
  national_id: "identity card",
  residence_permit: "residence permit",
  driving_licence: "driving licence",
};
const SIDE_MAX = 2000;
const byId = (id) => document.getElementById(id);
const say = (text) => { byId("status").textContent = text; };
const nameOf = (type) => NAMES[type] || type;

async function call(path, options) {
  const answer = await fetch(path, { method: "POST", cache: "no-store", credentials: "omit", ...options });
  const body = await answer.json();
  if (answer.ok) return body;
  if (answer.status === 404) throw new Error("This link has expired or was already used. Ask for a new one.");
  if (answer.status === 429) throw new Error("Too many attempts. Wait a minute, then try again.");
  throw new Error(body.title || "The request failed. Try again.");
}

const post = (path, members) => call(path, {
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ capture_session_token: token, ...members }),
});

// Shrink the picture for slow networks, and drop the camera's metadata (place and time).
async function shrunk(file) {
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, SIDE_MAX / Math.max(picture.width, picture.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/jpeg", 0.9); });
}

async function send(name, file) {
  say("Sending …");
  const body = await shrunk(file).catch(() => { throw new Error("This file is not a picture."); });
  await call(`/v1/vision/evidence/${name}`, {
    headers: { "Content-Type": "image/jpeg", "Capture-Session-Token": token },
    body,
  });
  await refresh(name);
}

async function choose(type) {
  await post("/v1/vision/set-document-type", { document_type: type });
  await refresh();
}

function showTypes(session) {
  const buttons = session.document_types.map((type) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.type = type;
    button.textContent = nameOf(type);
    button.setAttribute("aria-pressed", String(type === session.document_type));
    button.addEventListener("click", () => { choose(type).catch(fail); });
    return button;
  });
  byId("types").replaceChildren(...buttons);
  byId("choose").hidden = session.kind !== "flow" || session.locked || !session.awaiting.includes("document_evidence");
}

async function refresh(received) {
  const session = await post("/v1/vision/capture-session", {});
  showTypes(session);
  byId("chosen").textContent = session.document_type ? nameOf(session.document_type) : "document";
  for (const name of ["document_evidence", "selfie"]) {
    const section = byId(name);
    const wanted = session.awaiting.includes(name);
    if (name === received) section.querySelector(".done").hidden = false;
    section.querySelector("label").hidden = !wanted;
    const possible = name === "selfie" || session.document_type;
    section.hidden = !(wanted && possible) && section.querySelector(".done").hidden;
  }
  document.body.dataset.awaiting = session.awaiting.join(" ");
  document.body.dataset.type = session.document_type || "";
  if (!session.awaiting.length) say("Thank you. We have received everything; you can close this page.");
  else say(session.document_type ? "Take the pictures below." : "Choose your document first.");
}

function fail(failure) { say(failure.message); }

for (const name of ["document_evidence", "selfie"]) {
  byId(name).querySelector("input").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) send(name, file).catch(fail);
    event.target.value = "";
  });
}
if (token) refresh().catch(fail);
else say("This link is incomplete. Open it again from the message in which you received it.");
