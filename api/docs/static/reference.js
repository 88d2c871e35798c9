// The reference: search, the language of the examples, copy buttons, and the current section in the contents.
// Without this script the page shows everything, and has no search.
"use strict";

(() => {
  const LANGUAGE_KEY = "stanchion-language";
  const COPIED_MS = 1500;
  const RESULTS_MAX = 40;
  const root = document.documentElement;

  // --- search -------------------------------------------------------------------------------------------

  const box = document.getElementById("search");
  const results = document.getElementById("results");
  const found = document.getElementById("found");
  const contents = document.getElementById("contents");

  // Built at the first search. `title` is what a reader searches first; `text` is the whole section.
  let index = null;
  const built = () =>
    [...document.querySelectorAll("main section[id]")].map((section) => {
      const name = section.querySelector("h3 .name").textContent.trim();
      const route = section.querySelector(".route")?.textContent.replace(/\s+/g, " ").trim() ?? "Object";
      return {
        id: section.id,
        name,
        route,
        title: `${name} ${route} ${section.id}`.toLowerCase(),
        text: section.textContent.toLowerCase(),
      };
    });

  const matches = (query) => {
    index ??= built();
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const all = (text) => words.every((word) => text.includes(word));
    const first = index.filter((entry) => all(entry.title));
    const second = index.filter((entry) => !all(entry.title) && all(entry.text));
    return [...first, ...second];
  };

  const item = (entry) => {
    const link = document.createElement("a");
    link.href = `#${entry.id}`;
    const route = document.createElement("small");
    route.textContent = entry.route;
    link.append(entry.name, route);
    const row = document.createElement("li");
    row.append(link);
    return row;
  };

  const search = () => {
    const query = box.value.trim();
    const searching = query !== "";
    results.hidden = !searching;
    found.hidden = !searching;
    contents.hidden = searching;
    if (!searching) return;
    const hits = matches(query);
    results.replaceChildren(...hits.slice(0, RESULTS_MAX).map(item));
    const more = hits.length > RESULTS_MAX ? `; the first ${RESULTS_MAX} are shown` : "";
    found.textContent = hits.length === 0 ? "No match" : `${hits.length} ${hits.length === 1 ? "match" : "matches"}${more}`;
  };

  const move = (event) => {
    const links = [...results.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const next = event.key === "ArrowDown" ? links[at + 1] : at > 0 ? links[at - 1] : box;
    if (!next) return;
    event.preventDefault();
    next.focus();
  };

  box.addEventListener("input", search);
  box.closest("[role=search]").parentElement.addEventListener("keydown", (event) => {
    if (results.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") move(event);
    else if (event.key === "Enter" && document.activeElement === box) results.querySelector("a")?.click();
    else if (event.key === "Escape") {
      box.value = "";
      search();
      box.focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    box.focus();
    box.select();
  });
  document.getElementById("find").hidden = false;

  // --- examples -----------------------------------------------------------------------------------------

  const said = document.getElementById("said");

  // The clipboard interface exists on secure origins only; the older command works on the others.
  const copy = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("the browser refused");
  };

  const button = (label, more) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = label;
    for (const [name, value] of Object.entries(more)) made.setAttribute(name, value);
    return made;
  };

  const onCopy = async (event) => {
    const pressed = event.currentTarget;
    const shown = [...pressed.closest(".example").querySelectorAll("pre")].find((pre) => pre.offsetParent !== null);
    const done = await copy(shown.textContent).then(() => "Copied", () => "Not copied");
    pressed.textContent = said.textContent = done;
    setTimeout(() => {
      pressed.textContent = "Copy";
      said.textContent = "";
    }, COPIED_MS);
  };

  const show = (language) => {
    root.dataset.language = language;
    for (const each of document.querySelectorAll("button[data-of]"))
      each.setAttribute("aria-pressed", String(each.dataset.of === language));
    try {
      localStorage.setItem(LANGUAGE_KEY, language);
    } catch {}
  };

  const onLanguage = (event) => {
    // The examples above change their heights, too: keep the pressed button where it is.
    const pressed = event.currentTarget;
    const before = pressed.getBoundingClientRect().top;
    show(pressed.dataset.of);
    window.scrollBy(0, pressed.getBoundingClientRect().top - before);
  };

  for (const example of document.querySelectorAll(".example")) {
    const head = example.querySelector(".head");
    const about = example.dataset.about;
    if (example.classList.contains("both")) {
      head.querySelector("span").classList.add("hidden");
      const group = document.createElement("div");
      group.setAttribute("role", "group");
      group.setAttribute("aria-label", `Language of the example: ${about}`);
      for (const [language, label] of [["curl", "curl"], ["python", "Python"]]) {
        const choice = button(label, { "data-of": language });
        choice.addEventListener("click", onLanguage);
        group.append(choice, " ");
      }
      head.append(group);
    }
    const copying = button("Copy", { "aria-label": `Copy: ${about}`, class: "copy" });
    copying.addEventListener("click", onCopy);
    head.append(copying);
  }
  let language = "curl";
  try {
    language = localStorage.getItem(LANGUAGE_KEY) === "python" ? "python" : "curl";
  } catch {}
  show(language);

  // --- contents -----------------------------------------------------------------------------------------

  // On a phone the contents are folded away.
  const narrow = window.matchMedia("(max-width: 60rem)");
  const fold = () => (contents.open = !narrow.matches);
  narrow.addEventListener("change", fold);
  fold();

  const links = new Map([...contents.querySelectorAll("a[href^='#']")].map((link) => [link.hash.slice(1), link]));
  const sections = [...document.querySelectorAll("main section[id]")].filter((section) => links.has(section.id));
  const crossing = new Set();
  let current = null;
  const follow = (entries) => {
    for (const entry of entries)
      if (entry.isIntersecting) crossing.add(entry.target);
      else crossing.delete(entry.target);
    const top = sections.find((section) => crossing.has(section));
    if (!top || links.get(top.id) === current) return;
    current?.removeAttribute("aria-current");
    current = links.get(top.id);
    current.setAttribute("aria-current", "location");
    if (!narrow.matches) current.scrollIntoView({ block: "nearest" });
  };
  // A section is current while it crosses the upper fifth of the window.
  const observer = new IntersectionObserver(follow, { rootMargin: "-5% 0px -80% 0px" });
  for (const section of sections) observer.observe(section);
})();
