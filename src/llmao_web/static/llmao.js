// Keeps an open page current: applies what /live sends, in place, and lets ages grow.
"use strict";
(() => {
  const main = document.getElementById("main");
  const stale = document.getElementById("not-live");
  const TICK_MS = 1000, AGAIN_MS = 5000, SILENT_MS = 45000;
  const ahead = Number(main.dataset.now) - Date.now() / 1000;
  let stream = null, seen = "", again = 0, heard = 0;

  function span(seconds) {
    const whole = Math.max(Math.floor(seconds), 0);
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min`;
    const [unit, part, big, small] =
      whole < 86400 ? [3600, 60, "h", "min"] : [86400, 3600, "d", "h"];
    const rest = Math.floor((whole % unit) / part);
    return `${Math.floor(whole / unit)} ${big}` + (rest ? ` ${rest} ${small}` : "");
  }

  function tick(root) {
    const now = Date.now() / 1000 + ahead;
    for (const each of root.querySelectorAll("time.age")) {
      const at = Number(each.dataset.at), words = span(Math.abs(now - at));
      if (each.textContent !== words) each.textContent = words;
      if (each.dataset.shown !== each.dataset.at) {
        each.dataset.shown = each.dataset.at;
        each.dateTime = each.title = new Date(at * 1000).toISOString().replace(".000", "");
      }
    }
  }

  function parsed(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html.trim();
    return holder.content.firstElementChild;
  }

  function copyAttributes(old, fresh) {
    for (const { name, value } of fresh.attributes)
      if (old.getAttribute(name) !== value && !(name === "open" && old.localName === "details"))
        old.setAttribute(name, value);
    for (const { name } of [...old.attributes])
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }

  // Not `node.id`: of a form with a field named id, that is the field.
  function idOf(node) {
    return (node.nodeType === Node.ELEMENT_NODE && node.getAttribute("id")) || "";
  }

  function alike(old, fresh) {
    return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName &&
      idOf(old) === idOf(fresh);
  }

  // Make `old` equal to `fresh` and touch nothing that is equal already.
  function morph(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    } else if (old.matches("time.age") && fresh.matches("time.age")) {
      old.dataset.at = fresh.dataset.at;
    } else {
      copyAttributes(old, fresh);
      morphChildren(old, fresh);
    }
  }

  function morphChildren(old, fresh) {
    const named = new Map([...old.children].filter(idOf).map((each) => [idOf(each), each]));
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const id = idOf(next);
      let match = id ? named.get(id) : at && alike(at, next) ? at : null;
      if (match && !alike(match, next)) match = null;
      if (!match) {
        old.insertBefore(document.importNode(next, true), at);
        continue;
      }
      if (match === at) at = at.nextSibling;
      else old.insertBefore(match, at);
      morph(match, next);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function arrange(list, ids, parts) {
    let at = list.firstElementChild;
    for (const id of ids) {
      const child = document.getElementById(id) || (parts[id] && parsed(parts[id]));
      if (!child) continue;
      if (child === at) at = at.nextElementSibling;
      else list.insertBefore(child, at);
    }
    while (at) {
      const next = at.nextElementSibling;
      at.remove();
      at = next;
    }
  }

  // Run what changes the page, and give back the focus if that moved it.
  function keepingFocus(work) {
    const held = document.activeElement;
    work();
    if (held && held !== document.activeElement && held.isConnected)
      held.focus({ preventScroll: true });
    tick(main);
  }

  function apply({ parts = {}, ages = {}, lists = {} }) {
    for (const [id, ids] of Object.entries(lists)) {
      const list = document.getElementById(id);
      if (list) arrange(list, ids, parts);
    }
    for (const [id, html] of Object.entries(parts)) {
      const old = document.getElementById(id), fresh = parsed(html);
      if (old && fresh) morph(old, fresh);
    }
    for (const [id, times] of Object.entries(ages)) {
      const places = document.getElementById(id)?.querySelectorAll("time.age") || [];
      places.forEach((place, number) => { place.dataset.at = times[number]; });
    }
  }

  function current(is) {
    if (stale) stale.hidden = is;
    if (is) heard = Date.now();
  }

  function later(work) {
    clearTimeout(again);
    again = setTimeout(work, AGAIN_MS);
  }

  async function refresh() {
    close();
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (answer.redirected || !answer.ok) return later(() => location.reload());
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      keepingFocus(() => morph(main, page.getElementById("main")));
      seen = "";
      current(true);
      setTimeout(open, TICK_MS);
    } catch {
      current(false);
      later(refresh);
    }
  }

  function close() {
    if (stream) stream.close();
    stream = null;
  }

  function open() {
    if (stream || document.hidden || !main.dataset.live) return;
    const address = new URL(main.dataset.live, location.href);
    if (seen) address.searchParams.set("from", seen);
    stream = new EventSource(address);
    heard = Date.now();
    stream.onopen = () => current(true);
    stream.addEventListener("still", () => current(true));
    stream.onerror = () => {
      current(false);
      if (stream?.readyState === EventSource.CLOSED) {
        close();
        later(refresh);
      }
    };
    stream.addEventListener("change", (event) => {
      keepingFocus(() => apply(JSON.parse(event.data)));
      seen = event.lastEventId;
      current(true);
    });
    stream.addEventListener("refresh", refresh);
  }

  // What was shown to fit is no longer what stands in the form: it must be shown first.
  document.addEventListener("input", (event) => {
    if (event.target.closest("form.choose"))
      for (const each of document.querySelectorAll("#fit form")) each.remove();
  });

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  setInterval(() => {
    if (document.hidden) return;
    tick(main);
    if (!stream || Date.now() - heard < SILENT_MS) return;
    current(false);
    close();
    open();
  }, TICK_MS);
  open();
})();
