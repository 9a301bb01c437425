"use strict";
// Every page can be read without this script. It polls pages whose body has data-poll, and replaces the elements
// with data-live by id. It also guards forms against a double click, and marks all boxes of a list.
(() => {
  const POLL_MS = 5000;
  const { body } = document;
  let { etag } = body.dataset;

  const isEdited = (element) => {
    const active = document.activeElement;
    return element.contains(active) && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName) && active.type !== "checkbox";
  };

  const list = (root, selector) => [...root.querySelectorAll(selector)];

  // Opened details, marked boxes and the focus survive, because they have ids.
  const swap = (old, fresh) => {
    const kept = list(old, "details[open], input:checked").map((each) => each.id).filter(Boolean);
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(fresh);
    for (const id of kept) {
      const each = document.getElementById(id);
      if (each && each.tagName === "DETAILS") each.open = true;
      else if (each && each.type === "checkbox") each.checked = true;
    }
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };

  const say = (text) => {
    const place = document.getElementById("poll-state");
    if (place && place.textContent !== text) place.textContent = text;
  };

  const update = (html) => {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    const elements = list(document, "[data-live]");
    // A form that a person fills in is not replaced. The next poll asks again.
    if (elements.some(isEdited)) return false;
    for (const old of elements) {
      const found = fresh.getElementById(old.id);
      if (found) swap(old, document.importNode(found, true));
    }
    document.title = fresh.title;
    return true;
  };

  const poll = async () => {
    const headers = { Accept: "text/html", "X-Requested-With": "fetch" };
    if (etag) headers["If-None-Match"] = etag;
    const answer = await fetch(location.href, { headers, cache: "no-store" });
    if (answer.status === 401) {
      say("Your session has ended. Reload the page to sign in again.");
      return;
    }
    if (answer.status === 200 && update(await answer.text())) etag = answer.headers.get("ETag");
    say(answer.status === 200 || answer.status === 304 ? "" : `The server answered ${answer.status}.`);
  };

  const tick = async () => {
    if (!document.hidden) {
      try {
        await poll();
      } catch {
        say("The server cannot be reached. This page may be out of date.");
      }
    }
    setTimeout(tick, POLL_MS);
  };

  if ("poll" in body.dataset) {
    setTimeout(tick, POLL_MS);
    document.addEventListener("visibilitychange", () => document.hidden || poll().catch(() => {}));
  }

  for (const each of list(document, "[data-script]")) each.hidden = false;

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1";
  });
  // The back button shows the page as it was left: its forms can be sent again, and it may be out of date.
  addEventListener("pageshow", (event) => {
    for (const form of list(document, "form[data-sent]")) delete form.dataset.sent;
    if (event.persisted && "poll" in body.dataset) poll().catch(() => {});
  });

  document.addEventListener("change", (event) => {
    const { all } = event.target.dataset;
    if (!all) return;
    for (const box of list(document, `input[name="${all}"]`)) box.checked = event.target.checked;
  });
})();
