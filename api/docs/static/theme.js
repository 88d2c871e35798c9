// Light or dark: the reader's choice, else that of the system. Runs in the head, before the first paint.
"use strict";

(() => {
  const KEY = "stanchion-theme";
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // Storage throws where the browser forbids it; the choice then lasts until the page is left.
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {}

  const isDark = () => (chosen === null ? dark.matches : chosen === "dark");

  const show = () => {
    root.dataset.theme = isDark() ? "dark" : "light";
    root.classList.toggle("dark-mode", isDark());
    document.getElementById("theme")?.setAttribute("aria-pressed", String(isDark()));
  };

  const toggle = () => {
    chosen = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, chosen);
    } catch {}
    show();
  };

  show();
  dark.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    button.hidden = false;
    button.addEventListener("click", toggle);
    show();
  });
})();
