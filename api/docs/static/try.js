// Swagger UI, with one way to authorize: the page gets a token for a client id and secret, sends it with each
// request, and renews it. Each try that leaves the idempotency key empty gets a new one.
"use strict";

(() => {
  const KEY = "Idempotency-Key";
  const TOKEN_PATH = "/v1/oauth/token";
  const STORED = "stanchion-try-token";
  const RENEW_BEFORE_MS = 60_000;
  // The path before /docs, if a proxy serves the installation under one.
  const base = location.pathname.replace(/\/docs\/?$/, "");
  const form = document.getElementById("authorize");
  const state = document.getElementById("state");
  const forget = document.getElementById("forget");

  // --- the token ----------------------------------------------------------------------------------------

  // `token` survives a reload of this tab. `credentials` are in memory only.
  let token = null;
  let credentials = null;

  const store = () => {
    try {
      if (token) sessionStorage.setItem(STORED, JSON.stringify(token));
      else sessionStorage.removeItem(STORED);
    } catch {}
  };

  const say = (text, kind) => {
    state.textContent = text;
    state.className = kind;
  };

  const report = () => {
    forget.hidden = !token;
    if (!token) return say("Not authorized yet: operations answer 401.", "");
    const until = new Date(token.expires).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    const scopes = token.scope.split(" ").length;
    say(`Authorized as ${token.client} with ${scopes} ${scopes === 1 ? "scope" : "scopes"}, until ${until}.`, "good");
  };

  // Replaces the token. Throws an error with the server's reason.
  const authorize = async () => {
    const answer = await fetch(base + TOKEN_PATH, {
      method: "POST",
      // In the body, and without the browser's own credentials: it would ask for a password when it gets 401.
      credentials: "omit",
      body: new URLSearchParams({
        grant_type: "client_credentials",
        client_id: credentials.id,
        client_secret: credentials.secret,
      }),
    });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.detail || body.title);
    token = {
      client: credentials.id,
      value: body.access_token,
      scope: body.scope,
      expires: Date.now() + 1000 * body.expires_in,
    };
    store();
    report();
  };

  const refused = (error) => {
    token = null;
    store();
    report();
    say(`No token: ${error.message}`, "bad");
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    credentials = { id: form.elements.client_id.value.trim(), secret: form.elements.client_secret.value.trim() };
    await authorize().catch(refused);
  });

  forget.addEventListener("click", () => {
    token = credentials = null;
    form.reset();
    store();
    report();
    form.elements.client_id.focus();
  });

  try {
    token = JSON.parse(sessionStorage.getItem(STORED));
  } catch {}
  if (token && token.expires <= Date.now()) token = null;
  report();

  // --- requests -----------------------------------------------------------------------------------------

  // Method and path of the operations that take an idempotency key.
  const keyed = [];

  const fresh = () =>
    [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  const takesKey = (method, path) => keyed.some((each) => each.method === method && each.path.test(path));

  const header = (request, name) => Object.keys(request.headers).find((each) => each.toLowerCase() === name.toLowerCase());

  const complete = async (request) => {
    const path = new URL(request.url, location.href).pathname;
    if (!path.startsWith(`${base}/v1/`) || path === base + TOKEN_PATH) return request;
    if (token && credentials && token.expires - Date.now() < RENEW_BEFORE_MS) await authorize().catch(refused);
    if (token) request.headers.Authorization = `Bearer ${token.value}`;
    if (takesKey(request.method, path) && !header(request, KEY)) request.headers[KEY] = fresh();
    return request;
  };

  const noticed = (response) => {
    if (response.status === 401 && token && new URL(response.url, location.href).pathname !== base + TOKEN_PATH)
      say("The token is not accepted any more. Get a new one.", "bad");
    return response;
  };

  // --- the description ----------------------------------------------------------------------------------

  const pattern = (path) => new RegExp(`^${base}${path.replace(/\{[^}]+\}/g, "[^/]+")}$`);

  // The description as this page needs it: keys may be left out, and the form above authorizes all operations.
  const adapted = (description) => {
    description.servers = [{ url: base || "/" }];
    // Nothing to try.
    delete description.webhooks;
    delete description.security;
    delete description.components.securitySchemes;
    for (const [path, operations] of Object.entries(description.paths))
      for (const [method, operation] of Object.entries(operations)) {
        delete operation.security;
        const key = (operation.parameters || []).find((each) => each.name === KEY);
        if (!key) continue;
        keyed.push({ method: method.toUpperCase(), path: pattern(path) });
        delete key.example;
        key.required = false;
        key.description = "Leave it empty: each try gets a new key. To repeat a request, give the key that it had.";
      }
    return description;
  };

  // Swagger UI puts a link into the button that opens an operation. A text is enough: the address follows.
  const withoutNestedLinks = (system) => ({
    components: { DeepLink: ({ text }) => system.React.createElement("span", null, text) },
  });

  // Names for the controls that Swagger UI leaves without one.
  const NAMES = [
    [".body-param__text", "Request body"],
    [".content-type", "Media type"],
    [".operation-filter-input", "Filter by group"],
    [".copy-to-clipboard button", "Copy"],
  ];
  const name = () => {
    for (const [selector, label] of NAMES)
      for (const each of document.querySelectorAll(`${selector}:not([aria-label])`)) each.setAttribute("aria-label", label);
    for (const each of document.querySelectorAll("#swagger-ui pre:not([tabindex])")) each.tabIndex = 0;
  };
  new MutationObserver(name).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });

  const start = async () => {
    const answer = await fetch(`${base}/docs/openapi.json`);
    window.ui = SwaggerUIBundle({
      spec: adapted(await answer.json()),
      dom_id: "#swagger-ui",
      presets: [SwaggerUIBundle.presets.apis],
      plugins: [withoutNestedLinks],
      // The reference has the objects.
      defaultModelsExpandDepth: -1,
      layout: "BaseLayout",
      deepLinking: true,
      docExpansion: "list",
      filter: true,
      tryItOutEnabled: true,
      requestInterceptor: complete,
      responseInterceptor: noticed,
    });
  };
  start();
})();
