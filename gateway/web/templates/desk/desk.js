// The desk's only script. It moves numbers, and takes a list in anew that has changed while nobody is at it.
// It makes no markup of text and runs nothing that it is sent: the page's policy would not let it (Trusted Types).
"use strict";
(() => {
  const POLL_MS = 5000;
  const button = document.getElementById("live");
  const news = document.getElementById("news");
  const queue = document.querySelector("[data-queue]");
  const shown = new Map();
  let stream = null;
  let timer = null;

  const paused = () => sessionStorage.getItem("desk-paused") === "yes";
  const say = (text, on) => {
    button.textContent = text;
    button.setAttribute("aria-pressed", String(on));
    button.classList.toggle("off", !on);
  };
  const busy = () => queue.matches(":hover") || queue.contains(document.activeElement);

  // The part of the page that has an address of its own is asked for as any page is.
  const renew = () => {
    const request = new XMLHttpRequest();
    request.open("GET", location.href);
    request.responseType = "document";
    request.onload = () => {
      const found = request.response && request.response.querySelector("[data-queue]");
      if (request.status !== 200 || !found || busy()) { news.hidden = false; return; }
      queue.replaceChildren(...Array.from(found.childNodes, (node) => document.importNode(node, true)));
      news.hidden = true;
    };
    request.send();
  };

  const take = (counts) => {
    for (const [name, told] of Object.entries(counts)) {
      for (const place of document.querySelectorAll(`[data-count="${CSS.escape(name)}"]`)) {
        place.textContent = String(told);
        place.hidden = place.hasAttribute("data-unless-none") && !told;
      }
      const before = shown.get(name);
      shown.set(name, told);
      if (queue && queue.dataset.queue === name) {
        const page = before === undefined ? Number(queue.dataset.shown) : before;
        if (page !== told) { if (busy()) { news.hidden = false; } else { renew(); } }
      }
    }
  };

  const poll = async () => {
    try {
      const answer = await fetch("/desk/live?once=yes", { cache: "no-store" });
      if (answer.status === 404) { stop("Signed out"); return; }
      take(await answer.json());
      say("Live", true);
    } catch {
      say("Not live", false);
    }
    timer = setTimeout(poll, POLL_MS);
  };

  const stop = (text) => {
    if (stream) { stream.close(); stream = null; }
    clearTimeout(timer);
    timer = null;
    say(text, false);
  };

  const start = () => {
    if (stream || timer || paused() || document.hidden) { return; }
    stream = new EventSource("/desk/live");
    stream.onmessage = (event) => { take(JSON.parse(event.data)); say("Live", true); };
    // A stream that ends comes back by itself; one that is refused does not, and is asked for numbers instead.
    stream.onerror = () => {
      say("Not live", false);
      if (stream && stream.readyState === EventSource.CLOSED) { stream = null; poll(); }
    };
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    sessionStorage.setItem("desk-paused", paused() ? "no" : "yes");
    if (paused()) { stop("Paused"); } else { start(); }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stop("Paused"); } else { start(); }
  });
  if (paused()) { say("Paused", false); }
  start();
})();
