// The chart of the first page: uPlot draws the figures in the page's colours and refreshes it with the panels.
"use strict";

(() => {
  const RENEW_MS = 2000;
  const place = document.getElementById("chart");
  if (!place) return;
  const panel = document.getElementById("chart-panel");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chart = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const series = (label, name) => ({
    label,
    stroke: colour(name),
    width: 2,
    points: { show: false },
  });

  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

  const axis = (more) => ({
    stroke: colour("--faint"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    ...more,
  });

  const draw = (data) => {
    if (chart) chart.destroy();
    const options = {
      width: place.clientWidth,
      height: 200,
      series: [{}, series("approved", "--good"), series("declined", "--bad")],
      legend: { live: false },
      axes: [axis({ space: 90, values: (_chart, ticks) => ticks.map(clock) }), axis({ size: 44 })],
      scales: { y: { range: (_chart, _min, max) => [0, Math.max(1, max * 1.1)] } },
    };
    chart = new uPlot(options, data, place);
  };

  const renew = async () => {
    if (document.hidden) return;
    const answer = await fetch(place.dataset.figures).catch(() => null);
    if (!answer || !answer.ok) return;
    const figures = await answer.json();
    const data = [figures.at, figures.approved, figures.declined];
    panel.hidden = false;
    if (chart) chart.setData(data);
    else draw(data);
  };

  // Keep an open transaction on the page after newer ones push it out of the list.
  const panels = document.getElementById("panels");
  const keepOpen = (changes) => {
    const newest = document.getElementById("newest");
    if (!newest) return;
    for (const node of changes.flatMap((change) => [...change.removedNodes])) {
      const left = node.matches?.("details[open]") ? [node] : [...(node.querySelectorAll?.("#newest details[open]") ?? [])];
      for (const each of left) if (each.id && !document.getElementById(each.id)) newest.append(each);
    }
  };
  new MutationObserver(keepOpen).observe(panels, { childList: true, subtree: true });

  const redraw = () => chart && draw(chart.data);
  dark.addEventListener("change", redraw);
  window.addEventListener("resize", () => chart && chart.setSize({ width: place.clientWidth, height: 200 }));
  renew();
  setInterval(renew, RENEW_MS);
})();
