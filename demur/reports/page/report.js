// The sample browser. No framework: decoded records, an array of matching rows, and a list that
// draws only the rows in view. All text reaches the page through textContent; nothing is parsed as HTML.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const make = (tag, cls, text) => {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const whole = (n) => n.toLocaleString("en-US");
  // --- theme -----------------------------------------------------------------------------------
  const theme = $("theme");
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const label = () => { theme.textContent = dark() ? "Light theme" : "Dark theme"; };
  theme.hidden = false;
  label();
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    label();
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));

  if (!$("app")) return;

  // --- data ------------------------------------------------------------------------------------
  async function decode() {
    const raw = JSON.parse($("data").textContent);
    if (!raw.deflate) return raw;
    const bytes = Uint8Array.from(atob(raw.deflate), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  const OUTCOMES = {
    c: ["✓", "correct"], d: ["○", "deflected"], i: ["✗", "hallucinated"],
    u: ["?", "unjudged: the judge's call failed"], f: ["!", "failed: the system gave no usable answer"], n: ["", "not asked"],
  };
  const ROW = 62;

  decode().then(start, (error) => {
    $("app").hidden = false;
    $("app").replaceChildren(make("p", "missing",
      "This browser could not unpack the samples (" + error.message + "). A browser of 2023 or later can."));
  });

  function start(data) {
    const { items, systems, images } = data;
    const total = items.length;
    const sampleAt = (at) => data.samples[items[at].sample];
    const shortRecipe = new Map(data.recipes.map((r) => [r.text, r.short]));
    const codeOf = (verdict) => (verdict ? verdict.code : "n");
    const distinct = (key) => [...new Set(data.samples.map((s) => s[key]))].sort();
    const sources = distinct("source"), topics = distinct("topic");
    const list = $("list"), detail = $("detail"), count = $("count");
    const fields = {
      text: $("f-text"), scenario: $("f-scenario"), outcome: $("f-outcome"), system: $("f-system"), source: $("f-source"),
      topic: $("f-topic"), condition: $("f-condition"), recipe: $("f-recipe"), disagree: $("f-disagree"), main: $("f-main"),
    };
    const choices = (select, names, every) => {
      select.append(new Option(every, ""));
      names.forEach((name, at) => select.append(new Option(name || "(none)", String(at))));
      if (names.length < 2) select.closest("label").hidden = true;
    };
    choices(fields.scenario, data.scenarios, "All scenarios");
    choices(fields.system, systems, "Any system");
    choices(fields.source, sources, "All sources");
    choices(fields.topic, topics, "All topics");
    choices(fields.condition, data.conditions, "All prompts");
    choices(fields.recipe, data.recipes.map((r) => r.short), "All recipes");
    fields.outcome.append(new Option("Any outcome", ""));
    for (const code of "cdiuf") {
      if (items.some((item) => item.verdicts.some((v) => v && v.code === code))) fields.outcome.append(new Option(OUTCOMES[code][1].split(":")[0], code));
    }
    if (systems.length < 2) fields.disagree.closest("label").hidden = true;
    // Sweeps and other prompts repeat every question: they are there, and one click away.
    if (items.every((item) => item.main) || !items.some((item) => item.main)) {
      fields.main.checked = fields.main.defaultChecked = false;
      fields.main.closest("label").hidden = true;
    }

    // Free text is matched against the question, the accepted answer, every system's answer and the sample's id.
    let haystack = null;
    const searched = (at) => {
      if (!haystack) haystack = new Array(total);
      if (haystack[at] === undefined) {
        const s = sampleAt(at);
        const answers = items[at].verdicts.map((v) => (v ? v.answer : ""));
        haystack[at] = [s.question, s.answer, s.id, ...answers].join("\n").toLowerCase();
      }
      return haystack[at];
    };

    list.classList.toggle("many", systems.length > 8);

    let found = new Uint32Array(0);
    let chosen = -1; // position within `found`

    function filter() {
      const chosenOf = (field, values) => (field.value === "" ? null : values[Number(field.value)]);
      const scenario = chosenOf(fields.scenario, data.scenarios), source = chosenOf(fields.source, sources);
      const topic = chosenOf(fields.topic, topics), condition = chosenOf(fields.condition, data.conditions);
      const recipe = chosenOf(fields.recipe, data.recipes), system = chosenOf(fields.system, systems.map((_, n) => n));
      const outcome = fields.outcome.value, disagree = fields.disagree.checked, main = fields.main.checked;
      const words = fields.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      const kept = new Uint32Array(total);
      let size = 0;
      for (let at = 0; at < total; at++) {
        const item = items[at], s = sampleAt(at);
        if (scenario !== null && item.scenario !== scenario) continue;
        if (main && !item.main) continue;
        if (source !== null && s.source !== source) continue;
        if (topic !== null && s.topic !== topic) continue;
        if (condition !== null && item.condition !== condition) continue;
        if (recipe !== null && item.recipe !== recipe.text) continue;
        const codes = system === null ? item.verdicts.map(codeOf) : [codeOf(item.verdicts[system])];
        if (outcome ? !codes.includes(outcome) : system !== null && codes[0] === "n") continue;
        if (disagree) {
          const graded = item.verdicts.map(codeOf).filter((code) => "cdi".includes(code)); // a failure is no opinion
          if (new Set(graded).size < 2) continue;
        }
        if (words.length && !words.every((w) => searched(at).includes(w))) continue;
        kept[size++] = at;
      }
      found = kept.subarray(0, size);
      chosen = -1;
      list.scrollTop = 0;
      tell();
      draw();
      if (size && !narrow()) choose(0, false);
      else if (!narrow()) detail.replaceChildren(make("p", "empty", "No sample matches. Clear a filter to see more."));
    }

    function tell() {
      count.replaceChildren();
      const head = make("span");
      head.append(make("strong", "", whole(found.length)), " of " + whole(total) + " lines");
      count.append(head);
      if (systems.length > 8) return;
      systems.forEach((system, n) => {
        const sums = { c: 0, d: 0, i: 0, u: 0, f: 0, n: 0 };
        for (const at of found) sums[codeOf(items[at].verdicts[n])]++;
        const graded = sums.c + sums.d + sums.i;
        if (!graded) return;
        const [c, d, i] = [sums.c, sums.d, sums.i].map((n) => Math.round((100 * n) / graded));
        const rest = sums.u + sums.f ? ", " + whole(sums.u + sums.f) + " not graded" : "";
        count.append(make("span", "", system + ": ✓ " + c + " %  ○ " + d + " %  ✗ " + i + " %" + rest));
      });
    }

    // --- the list ------------------------------------------------------------------------------
    const space = make("div", "space");
    space.setAttribute("role", "presentation");
    list.append(space);
    const shown = new Map(); // position -> element

    const glyph = (code, who) => {
      const node = make("span", "glyph " + code, OUTCOMES[code][0]);
      if (code !== "n") {
        node.title = who + ": " + OUTCOMES[code][1];
        node.setAttribute("role", "img");
        node.setAttribute("aria-label", node.title);
      }
      return node;
    };

    const thumb = (s) => {
      const uri = s.images.length ? images[s.images[0]] : null;
      if (!uri) return null;
      const image = make("img", "thumb");
      image.src = uri;
      image.alt = "";
      return image;
    };

    function row(position) {
      const at = found[position], item = items[at], s = sampleAt(at);
      const node = make("div", "item");
      node.id = "item-" + position;
      node.setAttribute("role", "option");
      node.setAttribute("aria-setsize", String(found.length));
      node.setAttribute("aria-posinset", String(position + 1));
      node.setAttribute("aria-selected", String(position === chosen));
      node.style.top = position * ROW + "px";
      const image = thumb(s);
      if (image) { node.classList.add("pictured"); node.append(image); }
      node.append(make("span", "q", s.question));
      const meta = make("span", "m");
      // Many questions have equal words: the accepted answer and the id tell them apart, beside the picture.
      const how = [shortRecipe.get(item.recipe), item.main ? "" : item.condition];
      meta.append(make("span", "k", how.filter(Boolean).join(" · ")));
      for (const apart of [s.answer, s.id]) {
        if (apart) meta.append(make("span", "w", apart));
      }
      const marks = make("span", "glyphs");
      item.verdicts.forEach((v, n) => marks.append(glyph(codeOf(v), systems[n])));
      meta.append(marks);
      node.append(meta);
      node.addEventListener("click", () => { choose(position, true); });
      return node;
    }

    function draw() {
      space.style.height = found.length * ROW + "px";
      const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 6);
      const last = Math.min(found.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 6);
      const fresh = document.createDocumentFragment();
      space.replaceChildren();
      shown.clear();
      for (let position = first; position < last; position++) {
        const node = row(position);
        shown.set(position, node);
        fresh.append(node);
      }
      space.append(fresh);
      if (!found.length) space.append(make("p", "empty", "No sample matches these filters."));
      if (chosen >= 0 && shown.has(chosen)) list.setAttribute("aria-activedescendant", "item-" + chosen);
      else list.removeAttribute("aria-activedescendant");
    }

    let waiting = false;
    list.addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(); });
    }, { passive: true });
    addEventListener("resize", draw);

    const narrow = () => matchMedia("(max-width: 760px)").matches;

    function choose(position, open) {
      if (!found.length) return;
      chosen = Math.min(Math.max(position, 0), found.length - 1);
      const top = chosen * ROW;
      if (top < list.scrollTop) list.scrollTop = top;
      else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
      draw();
      show(found[chosen]);
      if (open && narrow()) {
        detail.classList.add("open");
        detail.focus();
      }
    }

    function back() {
      detail.classList.remove("open");
      list.focus({ preventScroll: true });
    }

    list.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
      if (step !== undefined) choose(chosen < 0 ? 0 : chosen + step, false);
      else if (event.key === "Home") choose(0, false);
      else if (event.key === "End") choose(found.length - 1, false);
      else if (event.key === "Enter" || event.key === " ") {
        if (chosen < 0) choose(0, true);
        if (narrow()) detail.classList.add("open");
        detail.focus();
      } else return;
      event.preventDefault();
    });
    list.addEventListener("focus", () => { if (chosen < 0 && found.length && !narrow()) choose(0, false); });
    document.addEventListener("keydown", (event) => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        fields.text.focus();
      } else if (event.key === "Escape" && (detail.classList.contains("open") || detail.contains(document.activeElement))) back();
    });

    // --- one sample ----------------------------------------------------------------------------
    const picture = (at, alt) => {
      const uri = images[at];
      if (uri === null) return make("p", "missing", "The picture was left out to keep this file small.");
      const image = make("img");
      image.src = uri;
      image.alt = alt;
      return image;
    };

    function show(at) {
      const item = items[at], s = sampleAt(at), context = data.contexts[item.context];
      const parts = [];
      const close = make("button", "back", "← Back to the list");
      close.type = "button";
      close.addEventListener("click", back);
      parts.push(close, make("h3", "", s.question));

      const tags = make("div", "tags");
      const expected = context.expected;
      if (expected !== "") tags.append(make("span", "tag expected", expected === "answer" ? "should answer" : "should deflect"));
      for (const text of [shortRecipe.get(item.recipe), s.source, s.topic, item.condition + " prompt"]) {
        if (text) tags.append(make("span", "tag", text));
      }
      parts.push(tags);

      if (s.images.length) {
        const shots = make("div", "shots");
        s.images.forEach((i) => shots.append(picture(i, "Query image")));
        parts.push(make("h4", "", "Query image"), shots);
      }
      if (s.answer) parts.push(make("h4", "", "Accepted answer"), make("div", "", s.answer));

      parts.push(make("h4", "", "What the systems said"));
      item.verdicts.forEach((verdict, n) => {
        if (!verdict) return;
        const { code, answer, reason, error, confidence } = verdict;
        const block = make("div", "answer");
        const who = make("div", "who");
        who.append(glyph(code, systems[n]), make("span", "", systems[n]));
        let what = OUTCOMES[code][1];
        if (confidence !== null) what += " · confidence " + confidence;
        who.append(make("span", "what", what));
        block.append(who);
        block.append(make("div", "said", answer || (error ? "" : "(empty)")));
        if (error) block.append(make("div", "reason", "Error: " + error));
        if (reason) block.append(make("div", "reason", "Why: " + reason));
        parts.push(block);
      });

      const shownEvidence = context.evidence;
      if (shownEvidence === null) {
        parts.push(make("h4", "", "Evidence"), make("p", "", "The run folder does not hold this context set."));
      } else if (!shownEvidence.length) {
        parts.push(make("h4", "", "Evidence"), make("p", "", "None was shown: the question" + (s.images.length ? " and its image" : "") + " alone."));
      } else {
        parts.push(make("h4", "", "Evidence, in the order shown"));
        const ol = make("ol", "evs");
        shownEvidence.forEach(({ number, gold }) => {
          const evidence = data.evidence[number];
          const li = make("li", gold ? "ev gold" : "ev");
          li.append(make("div", "role", gold ? "★ gold" : "distractor" + (evidence.note ? ", " + evidence.note : "")));
          li.append(make("div", "t", evidence.title));
          if (evidence.image !== null) li.append(picture(evidence.image, evidence.title));
          if (evidence.text) li.append(make("p", "", evidence.text));
          ol.append(li);
        });
        parts.push(ol);
      }
      parts.push(make("h4", "", "Ids and recipe"));
      const ids = make("div", "mono");
      ids.textContent = "sample " + s.id + "\ncontext " + context.id + "\nrecipe " + item.recipe;
      ids.style.whiteSpace = "pre-wrap";
      ids.style.overflowWrap = "anywhere";
      parts.push(ids);
      detail.replaceChildren(...parts);
      detail.scrollTop = 0;
    }

    // --- wiring --------------------------------------------------------------------------------
    let timer = 0;
    fields.text.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(filter, 120); });
    for (const name of ["scenario", "outcome", "system", "source", "topic", "condition", "recipe", "disagree", "main"]) {
      fields[name].addEventListener("change", filter);
    }
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    $("filters").addEventListener("reset", () => setTimeout(filter, 0));
    // A link such as #ask=CONTEXT/CONDITION (from the tables above) opens that sample.
    function follow() {
      let hash = "";
      try { hash = decodeURIComponent(location.hash); } catch { return; }
      const match = /^#ask=([^/]+)\/(.*)$/.exec(hash);
      if (!match) return;
      for (const field of Object.values(fields)) {
        if (field.type === "checkbox") field.checked = false;
        else field.value = "";
      }
      filter();
      const at = items.findIndex((item) => data.contexts[item.context].id === match[1] && item.condition === match[2]);
      if (at < 0) return;
      choose(found.indexOf(at), true);
      $("samples").scrollIntoView();
    }
    addEventListener("hashchange", follow);
    $("app").hidden = false;
    filter();
    follow();
    document.documentElement.dataset.ready = "yes";
  }
})();
