"use strict";
// Remove the token from the address, so that neither the history nor a screenshot shows it.
const token = location.hash.slice(1);
history.replaceState(null, "", location.pathname);

const SHOWN_MS = 30000;
const MASK = "•";
const card = document.getElementById("card");
const say = (text) => { document.getElementById("status").textContent = text; };

const ANSWERS = {
  "reveal-session-used": "This link was already used. Ask for a new one.",
  "reveal-session-expired": "This link has expired. Ask for a new one.",
  "card-ended": "This card has ended and cannot be shown.",
  "not-found": "This link is not valid. Ask for a new one.",
  "rate-limited": "Too many attempts. Wait a minute, then try again.",
};

async function open() {
  const answer = await fetch(location.pathname, {
    method: "POST",
    cache: "no-store",
    credentials: "omit",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (answer.ok) return answer.text();
  const problem = await answer.json();
  throw new Error(ANSWERS[problem.type.split("/").pop()] || "The card cannot be shown. Try again later.");
}

// In a frame, the clipboard's own interface needs a permission of the parent page; copying a selection does not.
function copy(value) {
  const area = document.createElement("textarea");
  area.value = value.textContent.replace(/\s/g, "");
  area.autocomplete = "off";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  say(copied ? "Copied." : "Copying is not possible here.");
}

// A click can arrive before its frame has the focus; until then the browser refuses to copy.
function whenFocused(action) {
  if (document.hasFocus()) return action();
  addEventListener("focus", action, { once: true });
  window.focus();
}

function addCopyButton(value) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", `Copy ${value.previousElementSibling.textContent.toLowerCase()}`);
  button.addEventListener("click", () => whenFocused(() => { copy(value); button.focus(); }));
  value.after(button);
}

function mask() {
  for (const button of card.querySelectorAll("button")) button.remove();
  for (const value of card.querySelectorAll("dd")) {
    value.textContent = value.textContent.replace(/[0-9]/g, MASK);
  }
  document.body.dataset.state = "masked";
  say("The details are hidden again. Ask for a new link to see them.");
}

function show(html) {
  card.innerHTML = html;
  for (const value of card.querySelectorAll("dd")) addCopyButton(value);
  document.body.dataset.state = "shown";
  say(`The details are hidden after ${SHOWN_MS / 1000} seconds.`);
  const until = Date.now() + SHOWN_MS;
  const timer = setTimeout(mask, SHOWN_MS);
  // Timers of a hidden page are late.
  document.addEventListener("visibilitychange", () => { if (Date.now() >= until) mask(); });
  addEventListener("pagehide", () => { clearTimeout(timer); mask(); });
}

if (token) open().then(show).catch((failure) => { document.body.dataset.state = "refused"; say(failure.message); });
else say("This link is incomplete, or was already used. Ask for a new one.");
