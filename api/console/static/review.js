// The form of a review shows the fields that its chosen outcome takes.
"use strict";

(() => {
  const form = document.getElementById("decision");
  if (!form) return;
  const show = () => {
    const outcome = form.elements.outcome.value;
    for (const part of form.querySelectorAll("[data-outcome]")) {
      const wanted = part.dataset.outcome.split(" ").includes(outcome);
      part.hidden = part.disabled = !wanted;
    }
  };
  form.addEventListener("change", show);
  show();
})();
