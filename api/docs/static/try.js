// Swagger UI with two habits of this API: a fresh idempotency key for each request, and an authorization dialog
// that begins at the client id.
"use strict";

(() => {
  const KEY = "Idempotency-Key";
  let used = null;

  // A key that was typed in stays as it is; the example of the description, and a key sent before, do not.
  const withFreshKey = (request) => {
    const given = Object.keys(request.headers || {}).find((name) => name.toLowerCase() === KEY.toLowerCase());
    if (given === undefined) return request;
    const value = request.headers[given];
    if (used === null || value === used) request.headers[given] = crypto.randomUUID();
    used = value;
    return request;
  };

  window.ui = SwaggerUIBundle({
    url: "/docs/openapi.json",
    dom_id: "#swagger-ui",
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset].filter(Boolean),
    layout: "BaseLayout",
    deepLinking: true,
    docExpansion: "list",
    filter: true,
    tryItOutEnabled: true,
    requestInterceptor: withFreshKey,
  });

  const focusClientId = () => {
    const box = document.querySelector("#client_id, .auth-container input[name=client_id], .auth-container input");
    if (box && !box.closest(".auth-container").dataset.focused) {
      box.closest(".auth-container").dataset.focused = "yes";
      box.focus();
    }
  };
  new MutationObserver(focusClientId).observe(document.getElementById("swagger-ui"), {
    childList: true,
    subtree: true,
  });
})();
