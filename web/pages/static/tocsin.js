"use strict";
// Every page can be read and used without this script. It polls pages whose body has data-poll, and replaces the
// elements with data-live by id. It renews ages, guards forms against a double click, and reads keys.
(() => {
  const POLL_MS = 5000;
  // Ages of the server, gaps of the schedules and the next person change without a change of the incidents.
  const FRESH_POLLS = 24;
  const { body } = document;
  let { etag } = body.dataset;
  let polls = 0;

  const isEdited = (element) => {
    const active = document.activeElement;
    return element.contains(active) && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName) && active.type !== "checkbox";
  };

  const list = (root, selector) => [...root.querySelectorAll(selector)];

  // Opened details, marked boxes, the row of the keys and the focus survive, because they have ids.
  const swap = (old, fresh) => {
    const kept = list(old, "details[open], input:checked").map((each) => each.id).filter(Boolean);
    const here = old.querySelector("tr.here input")?.id;
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(fresh);
    for (const id of kept) {
      const each = document.getElementById(id);
      if (each && each.tagName === "DETAILS") each.open = true;
      else if (each && each.type === "checkbox") each.checked = true;
    }
    if (here) document.getElementById(here)?.closest("tr").classList.add("here");
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };

  const say = (text) => {
    const place = document.getElementById("poll-state");
    if (place && place.textContent !== text) place.textContent = text;
  };

  const show = () => {
    for (const each of list(document, "[data-script]")) each.hidden = false;
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
    const icon = fresh.getElementById("icon");
    if (icon) document.getElementById("icon")?.setAttribute("href", icon.getAttribute("href"));
    document.title = fresh.title;
    show();
    return true;
  };

  const poll = async () => {
    const headers = { Accept: "text/html", "X-Requested-With": "fetch" };
    polls += 1;
    if (etag && polls % FRESH_POLLS) headers["If-None-Match"] = etag;
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

  // The words of web/pages/look/times.py.
  const describe = (seconds) => {
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
    const hours = Math.floor((seconds % 86400) / 3600);
    const days = Math.floor(seconds / 86400);
    return days < 7 && hours ? `${days} d ${hours} h` : `${days} d`;
  };

  // The clock of this device can be wrong: its difference to the time of the server counts.
  const skew = Number(body.dataset.now ?? Date.now()) - Date.now();
  const renew = () => {
    for (const each of list(document, "time[data-age], time[data-ago]")) {
      const seconds = Math.floor((Date.now() + skew - Date.parse(each.dateTime)) / 1000);
      const span = describe(Math.abs(seconds));
      let text = span;
      if ("ago" in each.dataset) text = seconds < 0 ? `in ${span}` : `${span} ago`;
      if (each.textContent !== text) each.textContent = text;
    }
  };
  setInterval(renew, 10_000);
  show();

  // A schedule begins at now where the screen is too narrow for its days.
  for (const line of list(document, ".strip-of-week line.now")) {
    line.closest(".strip-of-week").scrollLeft = Number(line.getAttribute("x1")) - 48;
  }

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

  // Keys: rows of a list, and the buttons that name their key.
  const rows = () => list(document, "[data-keys] tbody tr");
  const getHere = () => rows().find((row) => row.classList.contains("here"));

  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const old = all.indexOf(getHere());
    const next = all[Math.min(Math.max(old + step, 0), all.length - 1)];
    all[old]?.classList.remove("here");
    next.classList.add("here");
    next.querySelector("a")?.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };

  const mark = () => getHere()?.querySelector("input[type=checkbox]")?.click();

  // In a list without a mark, the row of the keys is meant.
  const press = (act) => {
    const button = document.querySelector(`main button[name="act"][value="${act}"]`);
    if (!button) return;
    if (rows().length && !document.querySelector("[data-keys] input:checked")) mark();
    if (!rows().length || document.querySelector("[data-keys] tbody input:checked")) button.click();
  };

  const help = () => {
    const dialog = document.getElementById("keys");
    if (dialog?.open) dialog.close();
    else dialog?.showModal();
  };

  const keys = {
    j: () => move(1),
    k: () => move(-1),
    x: mark,
    a: () => press("acknowledge"),
    r: () => press("resolve"),
    "?": help,
    "/": () => document.querySelector("[data-search]")?.focus(),
  };

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    const types = /^(TEXTAREA|SELECT)$/.test(target.tagName) || (target.tagName === "INPUT" && target.type !== "checkbox");
    if (types || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, key)) return;
    event.preventDefault();
    keys[key]();
  });
})();
