// The sample browser. No framework: a decoded table of columns, an array of matching rows, and a list that
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
  // Whole per cent that add up to 100: the largest remainders are rounded up, as in the bars.
  const shares = (counts, total) => {
    const exact = counts.map((n) => (100 * n) / total);
    const out = exact.map(Math.floor);
    const order = out.map((n, at) => at).sort((a, b) => exact[b] - out[b] - (exact[a] - out[a]) || a - b);
    for (const at of order.slice(0, 100 - out.reduce((a, b) => a + b, 0))) out[at] += 1;
    return out;
  };

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
    const { items, samples, evidence, contexts, systems, pool } = data;
    const total = items.sample.length;
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
    choices(fields.source, data.sources, "All sources");
    choices(fields.topic, data.topics, "All topics");
    choices(fields.condition, data.conditions, "All prompts");
    choices(fields.recipe, data.told, "All recipes");
    fields.outcome.append(new Option("Any outcome", ""));
    for (const code of "cdiuf") {
      if (data.verdicts.some((v) => v.code.includes(code))) fields.outcome.append(new Option(OUTCOMES[code][1].split(":")[0], code));
    }
    if (systems.length < 2) fields.disagree.closest("label").hidden = true;
    // Sweeps and other prompts repeat every question: they are there, and one click away.
    if (!items.main.includes(0) || !items.main.includes(1)) {
      fields.main.checked = fields.main.defaultChecked = false;
      fields.main.closest("label").hidden = true;
    }

    // Free text is matched against the question, the accepted answer, every system's answer and the sample's id.
    let haystack = null;
    const searched = (at) => {
      if (!haystack) haystack = new Array(total);
      if (haystack[at] === undefined) {
        const s = items.sample[at];
        const said = data.verdicts.map((v) => pool[v.answer[at]]).join("\n");
        haystack[at] = (samples.question[s] + "\n" + samples.answer[s] + "\n" + samples.id[s] + "\n" + said).toLowerCase();
      }
      return haystack[at];
    };

    list.classList.toggle("many", systems.length > 8);

    let found = new Uint32Array(0);
    let chosen = -1; // position within `found`

    function filter() {
      const number = (f) => (f.value === "" ? -1 : Number(f.value));
      const scenario = number(fields.scenario), system = number(fields.system), source = number(fields.source);
      const topic = number(fields.topic), condition = number(fields.condition), recipe = number(fields.recipe);
      const outcome = fields.outcome.value, disagree = fields.disagree.checked, main = fields.main.checked;
      const words = fields.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      const looked = system < 0 ? data.verdicts : [data.verdicts[system]];
      const kept = new Uint32Array(total);
      let size = 0;
      for (let at = 0; at < total; at++) {
        const s = items.sample[at];
        if (scenario >= 0 && items.scenario[at] !== scenario) continue;
        if (main && !items.main[at]) continue;
        if (source >= 0 && samples.source[s] !== source) continue;
        if (topic >= 0 && samples.topic[s] !== topic) continue;
        if (condition >= 0 && items.condition[at] !== condition) continue;
        if (recipe >= 0 && items.recipe[at] !== recipe) continue;
        if (outcome ? !looked.some((v) => v.code[at] === outcome) : system >= 0 && looked[0].code[at] === "n") continue;
        if (disagree) {
          let first = "";
          let differ = false;
          for (const v of data.verdicts) {
            const code = v.code[at];
            if (!"cdi".includes(code)) continue; // a failure is no opinion
            if (first && code !== first) { differ = true; break; }
            first = code;
          }
          if (!differ) continue;
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
      data.verdicts.forEach((v, at) => {
        const sums = { c: 0, d: 0, i: 0, u: 0, f: 0, n: 0 };
        for (const item of found) sums[v.code[item]]++;
        const graded = sums.c + sums.d + sums.i;
        if (!graded) return;
        const [c, d, i] = shares([sums.c, sums.d, sums.i], graded);
        const rest = sums.u + sums.f ? ", " + whole(sums.u + sums.f) + " not graded" : "";
        count.append(make("span", "", systems[at] + ": ✓ " + c + " %  ○ " + d + " %  ✗ " + i + " %" + rest));
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
      const uri = samples.images[s].length ? data.images[samples.images[s][0]] : null;
      if (!uri) return null;
      const image = make("img", "thumb");
      image.src = uri;
      image.alt = "";
      return image;
    };

    function row(position) {
      const at = found[position], s = items.sample[at];
      const node = make("div", "item");
      node.id = "item-" + position;
      node.setAttribute("role", "option");
      node.setAttribute("aria-setsize", String(found.length));
      node.setAttribute("aria-posinset", String(position + 1));
      node.setAttribute("aria-selected", String(position === chosen));
      node.style.top = position * ROW + "px";
      const image = thumb(s);
      if (image) { node.classList.add("pictured"); node.append(image); }
      node.append(make("span", "q", samples.question[s]));
      const meta = make("span", "m");
      // Many questions have equal words: the accepted answer and the id tell them apart, beside the picture.
      const how = [data.told[items.recipe[at]], items.main[at] ? "" : data.conditions[items.condition[at]]];
      meta.append(make("span", "k", how.filter(Boolean).join(" · ")));
      for (const apart of [samples.answer[s], samples.id[s]]) {
        if (apart) meta.append(make("span", "w", apart));
      }
      const marks = make("span", "glyphs");
      data.verdicts.forEach((v, n) => marks.append(glyph(v.code[at], systems[n])));
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
      const missing = data.images[at];
      if (missing === null) return make("p", "missing", "The picture was left out to keep this file small.");
      const image = make("img");
      image.src = missing;
      image.alt = alt;
      return image;
    };

    function show(at) {
      const s = items.sample[at], c = items.context[at];
      const parts = [];
      const close = make("button", "back", "← Back to the list");
      close.type = "button";
      close.addEventListener("click", back);
      parts.push(close, make("h3", "", samples.question[s]));

      const tags = make("div", "tags");
      const expected = contexts.expected[c];
      if (expected !== "") tags.append(make("span", "tag expected", expected === "answer" ? "should answer" : "should deflect"));
      for (const text of [data.told[items.recipe[at]], data.sources[samples.source[s]], data.topics[samples.topic[s]],
        data.conditions[items.condition[at]] + " prompt"]) {
        if (text) tags.append(make("span", "tag", text));
      }
      parts.push(tags);

      if (samples.images[s].length) {
        const shots = make("div", "shots");
        samples.images[s].forEach((i) => shots.append(picture(i, "Query image")));
        parts.push(make("h4", "", "Query image"), shots);
      }
      if (samples.answer[s]) parts.push(make("h4", "", "Accepted answer"), make("div", "", samples.answer[s]));

      parts.push(make("h4", "", "What the systems said"));
      data.verdicts.forEach((v, n) => {
        const code = v.code[at];
        if (code === "n") return;
        const block = make("div", "answer");
        const who = make("div", "who");
        who.append(glyph(code, systems[n]), make("span", "", systems[n]));
        let what = OUTCOMES[code][1];
        const sure = v.confidence[at];
        if (sure !== null) what += " · confidence " + sure;
        who.append(make("span", "what", what));
        block.append(who);
        const error = pool[v.error[at]];
        block.append(make("div", "said", pool[v.answer[at]] || (error ? "" : "(empty)")));
        if (error) block.append(make("div", "reason", "Error: " + error));
        if (pool[v.reason[at]]) block.append(make("div", "reason", "Why: " + pool[v.reason[at]]));
        parts.push(block);
      });

      const shownEvidence = contexts.evidence[c];
      if (shownEvidence === null) {
        parts.push(make("h4", "", "Evidence"), make("p", "", "The run folder does not hold this context set."));
      } else if (!shownEvidence.length) {
        parts.push(make("h4", "", "Evidence"), make("p", "", "None was shown: the question" + (samples.images[s].length ? " and its image" : "") + " alone."));
      } else {
        parts.push(make("h4", "", "Evidence, in the order shown"));
        const ol = make("ol", "evs");
        shownEvidence.forEach((e, n) => {
          const gold = contexts.gold[c][n] === "1";
          const li = make("li", gold ? "ev gold" : "ev");
          li.append(make("div", "role", gold ? "★ gold" : "distractor" + (evidence.note[e] ? ", " + evidence.note[e] : "")));
          li.append(make("div", "t", evidence.title[e]));
          if (evidence.image[e] >= 0) li.append(picture(evidence.image[e], evidence.title[e]));
          if (evidence.text[e]) li.append(make("p", "", evidence.text[e]));
          ol.append(li);
        });
        parts.push(ol);
      }
      parts.push(make("h4", "", "Ids and recipe"));
      const ids = make("div", "mono");
      ids.textContent = "sample " + samples.id[s] + "\ncontext " + contexts.id[c] + "\nrecipe " + data.recipes[items.recipe[at]];
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
      const at = items.context.findIndex((c, i) => contexts.id[c] === match[1] && data.conditions[items.condition[i]] === match[2]);
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
