// Rows of conditions and controls: the operators of the chosen attribute, an example of its value, and the focus after
// a row is added or removed; choices that make the form anew. The server makes the rows; without this script every
// operator is offered, and a button makes the form anew.
"use strict";

(() => {
  const refine = (row) => {
    const line = row.querySelector(".condition-line");
    const chosen = line.querySelector("[data-attribute]").selectedOptions[0];
    const value = line.querySelector("[data-value]");
    value.placeholder = chosen.dataset.hint || "value, value …";
    const op = line.querySelector("[data-op]");
    if (!op || !chosen.dataset.ops) return;
    const allowed = chosen.dataset.ops.split(" ");
    for (const each of op.options) {
      each.disabled = each.hidden = !allowed.includes(each.value);
    }
    if (op.selectedOptions[0]?.disabled) op.value = allowed[0];
  };

  const refineAll = () => document.querySelectorAll("[data-condition]").forEach(refine);

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-attribute]")) refine(event.target.closest("[data-condition]"));
    if (!event.target.matches("[data-renews]")) return;
    // The new form has the same field; it gets the focus again.
    renewed = event.target.id;
    document.getElementById(event.target.dataset.renews).click();
  });

  // The field whose change makes the form anew.
  let renewed = null;
  // The list whose rows a button has changed; its last row gets the focus when the new form is in place.
  let changed = null;
  document.addEventListener("click", (event) => {
    const button = event.target.closest('button[name="do"]');
    const [verb, name] = (button?.value || "").split(":");
    if (verb === "add") changed = name;
    if (verb === "remove") changed = name.slice(0, name.lastIndexOf("."));
  });

  const focusChanged = () => {
    if (renewed !== null) document.getElementById(renewed)?.focus();
    renewed = null;
    if (changed === null) return;
    const fields = [...document.querySelectorAll(`:is(select, input)[name^="${changed}."]`)];
    const own = fields.filter((each) => /^[0-9]+\.[a-z]+$/.test(each.name.slice(changed.length + 1)));
    const last = own.filter((each) => each.offsetParent !== null);
    const row = last.at(-1)?.name.slice(0, last.at(-1).name.lastIndexOf("."));
    last.find((each) => each.name.startsWith(`${row}.`))?.focus();
    changed = null;
  };

  const settled = () => {
    refineAll();
    focusChanged();
  };
  new MutationObserver((changes) => {
    const swapped = changes.some((change) => [...change.addedNodes].some((node) => node.nodeType === 1 && node.matches("#editor, #editor *")));
    if (swapped) settled();
  }).observe(document.getElementById("main"), { childList: true, subtree: true });
  refineAll();
})();
