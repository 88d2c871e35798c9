// The charts of the first page, and the live tail of the list of transactions.
"use strict";

(() => {
  const SOON_MS = 1000;
  const HEIGHT = 180;
  // Distances between marks of an axis that counts.
  const WHOLE = [1, 2, 5].flatMap((step) => Array.from({ length: 10 }, (_each, power) => step * 10 ** power)).sort((a, b) => a - b);

  // --- charts ---------------------------------------------------------------------------------------------

  const summary = document.getElementById("summary");
  const charts = new Map();
  let figures = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const whole = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
  const oneDigit = (value) => (value === null || value === undefined ? "–" : value.toFixed(1));
  const money = (value) =>
    value === null || value === undefined
      ? "–"
      : value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const short = (value) =>
    new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);

  const axis = (more) => ({
    stroke: colour("--faint"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    ...more,
  });

  const bars = (label, name, show) => ({
    label,
    stroke: colour(name),
    fill: colour(name),
    width: 0,
    points: { show: false },
    paths: uPlot.paths.bars({ size: [0.8, 40] }),
    value: (_chart, value, _series, index) => show(value, index),
  });

  const line = (label, name, show) => ({
    label,
    stroke: colour(name),
    width: 2,
    spanGaps: true,
    points: { show: (chart, series) => chart.data[series].filter((each) => each !== null).length < 3, size: 6 },
    value: (_chart, value) => show(value),
  });

  const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
  const most = (values) => (values.every((value) => value === null) ? null : Math.max(...values));

  // Bars of two series on top of each other: the sum behind, the first in front.
  const stacked = (id, labels, first, second) => ({
    id,
    data: [first.map((value, index) => (value === null ? null : value + second[index])), first],
    series: [
      bars(labels[1], "--bad", (_value, index) => whole(index === null ? null : second[index])),
      bars(labels[0], "--good", (value) => whole(value)),
    ],
    told: `${whole(sum(first))} ${labels[0]}, ${whole(sum(second))} ${labels[1]}`,
    least: 1,
    incrs: WHOLE,
  });

  const described = () => [
    stacked("chart-decisions", ["approved", "declined"], figures.approved, figures.declined),
    {
      id: "chart-amounts",
      data: Object.values(figures.amounts),
      series: Object.keys(figures.amounts).map((currency, index) =>
        line(currency, ["--accent", "--good", "--warn"][index % 3], money),
      ),
      told: Object.entries(figures.amounts).map(([currency, values]) => `${money(sum(values))} ${currency}`).join(", "),
      least: 1,
    },
    {
      id: "chart-latency",
      data: [figures.p50_ms, figures.p99_ms],
      series: [line("p50", "--accent", oneDigit), line("p99", "--warn", oneDigit)],
      told: `p50 up to ${oneDigit(most(figures.p50_ms))} ms, p99 up to ${oneDigit(most(figures.p99_ms))} ms`,
      least: 1,
    },
    stacked(
      "chart-stand-in",
      ["approved", "declined"],
      figures.stand_in_approved,
      figures.stand_in_declined,
    ),
  ];

  const draw = (chart) => {
    const place = document.getElementById(chart.id);
    charts.get(chart.id)?.destroy();
    place.replaceChildren();
    const options = {
      width: place.clientWidth,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), figures.zone),
      series: [{ value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" }, ...chart.series],
      axes: [
        axis({ space: 64, values: [
          [86400, "{MM}-{DD}", null, null, null, null, null, null, 1],
          [3600, "{HH}:{mm}", "\n{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
          [60, "{HH}:{mm}", null, null, null, null, null, null, 1],
          [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
        ] }),
        axis({ size: 52, values: (_chart, ticks) => ticks.map(short), ...(chart.incrs && { incrs: chart.incrs }) }),
      ],
      scales: { y: { range: (_chart, _min, max) => [0, Math.max(chart.least, (max ?? 0) * 1.1)] } },
    };
    charts.set(chart.id, new uPlot(options, [figures.at, ...chart.data], place));
    place.setAttribute("aria-label", `${place.dataset.label}: ${chart.told || "none"}`);
  };

  const drawAll = () => {
    if (figures) for (const chart of described()) draw(chart);
  };

  const fill = (target, template) => {
    const [place, source] = [document.getElementById(target), document.getElementById(template)];
    if (place && source) place.replaceChildren(source.content.cloneNode(true));
  };

  const takeFigures = () => {
    const numbers = document.getElementById("numbers");
    if (!numbers || numbers.dataset.figures === takeFigures.taken) return;
    takeFigures.taken = numbers.dataset.figures;
    figures = JSON.parse(numbers.dataset.figures);
    document.getElementById("charts").hidden = false;
    drawAll();
    fill("reasons", "reasons-content");
    fill("figures-table", "figures-content");
    if (figures.counting) setTimeout(() => summary.dispatchEvent(new Event("refresh")), SOON_MS);
  };

  if (summary) {
    for (const place of document.querySelectorAll(".chart")) place.dataset.label = place.getAttribute("aria-label");
    new MutationObserver(takeFigures).observe(summary, { childList: true, subtree: true, attributes: true });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    window.addEventListener("resize", () => {
      for (const [id, chart] of charts) chart.setSize({ width: document.getElementById(id).clientWidth, height: HEIGHT });
    });
  }

  // --- live tail ------------------------------------------------------------------------------------------

  const TAIL_MS = 2000;
  const FRESH_MS = 3000;
  const rows = document.querySelector("[data-tail]");
  const button = document.getElementById("tail");
  const state = document.getElementById("tail-state");
  if (!rows || !button) return;
  let paused = false;

  const setPaused = (value) => {
    paused = value;
    button.textContent = paused ? "Resume" : "Pause";
    state.textContent = paused ? "Paused: new transactions are not shown." : "Live: new transactions appear by themselves.";
    if (!paused) rows.dispatchEvent(new Event("tail"));
  };

  button.hidden = false;
  setPaused(false);
  button.addEventListener("click", () => setPaused(!paused));
  setInterval(() => {
    if (!paused && !document.hidden) rows.dispatchEvent(new Event("tail"));
  }, TAIL_MS);

  const known = new Set([...rows.children].map((row) => row.id));
  new MutationObserver(() => {
    for (const row of rows.children) {
      if (known.has(row.id)) continue;
      known.add(row.id);
      row.classList.add("fresh");
      setTimeout(() => row.classList.remove("fresh"), FRESH_MS);
    }
  }).observe(rows, { childList: true });
})();
