// Search that answers as one types. The site's text is a script, which is loaded when a field is first used: a page may
// load scripts from disk too, where it may fetch nothing.
(() => {
  const root = document.documentElement.dataset.content_root;
  const AROUND = 70; // characters of an excerpt before and after the words
  let loaded;

  function load() {
    loaded ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${root}_static/sections.js`;
      script.onload = () => resolve(window.gpusimPages.flatMap(sectionsOf));
      script.onerror = () => reject(new Error(`${script.src} is not there`));
      document.head.append(script);
    });
    return loaded;
  }

  function sectionsOf([address, sections]) {
    const page = sections[0][1];
    return sections.map(([anchor, title, text], index) => ({
      href: `${root}${address}${index ? `#${anchor}` : ""}`,
      page, title, text,
      lower: text.toLowerCase(),
      titles: `${title} ${index ? page : ""}`.toLowerCase(),
      title_lower: title.toLowerCase(),
    }));
  }

  function places(text, word, most = 20) {
    const found = [];
    for (let at = text.indexOf(word); at >= 0 && found.length < most; at = text.indexOf(word, at + 1)) found.push(at);
    return found;
  }

  // How well a section answers, 0 if a word is missing: titles before text, whole words before parts of words.
  function score(section, words, phrase) {
    let sum = 0;
    for (const word of words) {
      const inside = places(section.lower, word);
      const starts = inside.filter((at) => !/\w/.test(section.lower[at - 1] ?? " "));
      const titled = section.titles.includes(word);
      if (!inside.length && !titled) return 0;
      sum += Math.min(starts.length, 6) + Math.min(inside.length, 3) / 3;
      sum += section.title_lower.includes(word) ? 12 : titled ? 4 : 0;
    }
    if (section.title_lower === phrase) sum += 40;
    if (words.length > 1 && section.lower.includes(phrase)) sum += 10;
    if (words.length > 1 && section.title_lower.includes(phrase)) sum += 20;
    return section.page === "Changelog" ? sum / 8 : sum;
  }

  // Where most of the words stand together.
  function bestPlace(section, words, phrase) {
    const whole = section.lower.indexOf(phrase);
    if (whole >= 0) return whole;
    const near = (at) => words.filter((word) => {
      const next = section.lower.indexOf(word, Math.max(at - AROUND, 0));
      return next >= 0 && next < at + AROUND;
    }).length;
    const all = words.flatMap((word) => places(section.lower, word));
    return all.reduce((best, at) => (best < 0 || near(at) > near(best) ? at : best), -1);
  }

  function marked(text, words) {
    const pattern = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).sort((a, b) => b.length - a.length);
    return text.split(new RegExp(`(${pattern.join("|")})`, "i")).map((part, index) => {
      if (index % 2 === 0) return part;
      const mark = document.createElement("mark");
      mark.textContent = part;
      return mark;
    });
  }

  function excerpt(section, words, phrase) {
    const at = Math.max(bestPlace(section, words, phrase), 0);
    const from = at > AROUND ? section.text.indexOf(" ", at - AROUND) + 1 : 0;
    const cut = section.text.lastIndexOf(" ", at + phrase.length + 2 * AROUND);
    const to = section.text.length <= at + phrase.length + 2 * AROUND || cut <= at ? section.text.length : cut;
    const text = section.text.slice(Math.min(from, at), Math.min(to, at + 4 * AROUND));
    return [from ? "… " : "", ...marked(text, words), to < section.text.length ? " …" : ""];
  }

  function shown(section, words, phrase) {
    const link = document.createElement("a");
    link.href = section.href;
    const [title, page, text] = ["strong", "small", "span"].map((name) => document.createElement(name));
    title.append(...marked(section.title, words));
    page.textContent = section.title === section.page ? "" : section.page;
    text.append(...excerpt(section, words, phrase));
    link.append(title, " ", page, text);
    return link;
  }

  async function find(field, results, most) {
    const phrase = field.value.toLowerCase().trim().replace(/\s+/g, " ");
    const words = [...new Set(phrase.split(" "))].filter(Boolean);
    const sections = words.length ? await load() : [];
    if (phrase !== field.value.toLowerCase().trim().replace(/\s+/g, " ")) return; // typed on while it was loaded
    const found = sections.map((section) => [score(section, words, phrase), section]).filter(([value]) => value > 0);
    found.sort(([a], [b]) => b - a);
    const count = document.createElement("p");
    count.textContent = !words.length ? "" : found.length > most ? `the best ${most} of ${found.length} sections`
      : found.length === 1 ? "1 section" : `${found.length || "no"} sections`;
    results.replaceChildren(count, ...found.slice(0, most).map(([, section]) => shown(section, words, phrase)));
    results.scrollTop = 0;
    results.hidden = !words.length;
  }

  // Arrows go through the results and back to the field.
  function walk(event, field, results) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || results.hidden) return;
    const stops = [field, ...results.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    stops[Math.min(Math.max(at + step, 0), stops.length - 1)].focus();
  }

  function attach(field, results, most) {
    field.autocomplete = "off";
    field.addEventListener("focus", () => load().catch(() => {}));
    field.addEventListener("input", () => find(field, results, most));
    for (const each of [field, results]) each.addEventListener("keydown", (event) => walk(event, field, results));
  }

  // The panel of the navigation's field: beside it, or below it where the window is narrow.
  function attachPanel(field) {
    const panel = document.createElement("div");
    panel.className = "found found-panel";
    panel.hidden = true;
    document.body.append(panel);
    attach(field, panel, 20);
    const place = () => {
      const box = field.getBoundingClientRect();
      const beside = window.innerWidth - box.right > 480;
      panel.style.left = beside ? `${box.right + 8}px` : "0";
      panel.style.top = beside ? "8px" : `${box.bottom + 4}px`;
    };
    field.addEventListener("input", place);
    field.addEventListener("focus", () => { place(); find(field, panel, 20); });
    document.addEventListener("click", (event) => {
      if (event.target !== field && !panel.contains(event.target)) panel.hidden = true;
    });
    panel.addEventListener("click", (event) => {
      if (event.target.closest("a")) panel.hidden = true; // it may lead to a place on this page
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") panel.hidden = true;
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
      event.preventDefault();
      (document.querySelector(".search-field") ?? field).focus();
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    const side = document.querySelector(".sidebar-search");
    side.placeholder = "Search (press /)";
    attachPanel(side);
    const glass = document.querySelector(".sidebar-search-container").cloneNode();
    const link = document.createElement("a");
    link.className = "search-link";
    link.href = glass.action;
    link.setAttribute("aria-label", "Search");
    document.querySelector(".header-right").prepend(link);
    const field = document.querySelector(".search-field");
    if (!field) return;
    const results = document.getElementById("search-results");
    attach(field, results, 60);
    field.form.addEventListener("submit", (event) => event.preventDefault());
    field.addEventListener("input", () => history.replaceState(null, "", `?q=${encodeURIComponent(field.value)}`));
    field.value = new URLSearchParams(location.search).get("q") ?? "";
    field.focus();
    find(field, results, 60);
  });
})();
