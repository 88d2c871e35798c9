// Swagger UI with two additions: a new idempotency key for each request, and an authorization dialog that
// focuses the client id.
"use strict";

(() => {
  const KEY = "idempotency-key";
  let example = null;

  const fresh = () =>
    [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  // Replace the example key of the description by a new key. Keep a typed key, so that a request can be repeated.
  const withFreshKey = (request) => {
    const name = Object.keys(request.headers || {}).find((each) => each.toLowerCase() === KEY);
    if (name !== undefined && request.headers[name] === example) request.headers[name] = fresh();
    return request;
  };

  const exampleOf = (description) => {
    for (const path of Object.values(description.paths))
      for (const operation of Object.values(path))
        for (const each of operation.parameters || [])
          if (each.name.toLowerCase() === KEY) return each.example ?? each.schema?.example ?? null;
    return null;
  };

  const remember = (response) => {
    if (response.url.endsWith("/docs/openapi.json")) example = exampleOf(JSON.parse(response.text));
    return response;
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
    responseInterceptor: remember,
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
