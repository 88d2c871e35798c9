// Shared behaviour of the pages: the menu of narrow screens, dialogs, copy buttons, choices that send their form.
"use strict";

(() => {
  const one = (selector) => document.querySelector(selector);

  const menu = one("[data-menu]");
  const setMenu = (open) => {
    menu.setAttribute("aria-expanded", String(open));
    document.body.classList.toggle("menu-open", open);
  };

  const copy = async (button) => {
    await navigator.clipboard.writeText(button.dataset.copy);
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1500);
  };

  document.addEventListener("click", (event) => {
    const opens = event.target.closest("[data-dialog]");
    if (opens) document.getElementById(opens.dataset.dialog).showModal();
    if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
    const copies = event.target.closest("[data-copy]");
    if (copies) copy(copies).catch(() => {});
    if (menu && event.target.closest("[data-menu]")) setMenu(menu.getAttribute("aria-expanded") !== "true");
  });

  // "/" goes to the search; Escape closes the menu.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu) setMenu(false);
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const find = document.getElementById("find");
    if (!find) return;
    event.preventDefault();
    find.focus();
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });

  // A dialog with a refused form is open from the start.
  for (const dialog of document.querySelectorAll("dialog[data-open]")) dialog.showModal();
})();
