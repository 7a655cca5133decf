// The charts of a tuning run's page, from the embedded specifications.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  async function inflate(base64) {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  function config() {
    const [ink, line] = ["--ink", "--line"].map((name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim());
    const font = getComputedStyle(document.body).fontFamily;
    const label = { labelColor: ink, titleColor: ink, labelFont: font, titleFont: font, titleFontWeight: 500 };
    return { background: "transparent", font, view: { stroke: null }, axis: { ...label, gridColor: line, domainColor: line, tickColor: line }, legend: label };
  }

  async function draw() {
    try {
      if (!window.vegaEmbed) {
        const script = document.createElement("script");
        script.textContent = await inflate($("vega").textContent);
        document.head.append(script);
      }
      for (const element of document.querySelectorAll("[data-chart]")) {
        const id = element.dataset.chart;
        await vegaEmbed(element, { ...data.charts[id], description: data.labels[id] }, {
          ast: true, // expressions are interpreted: the page's policy forbids to compile them
          actions: false, mode: "vega-lite", renderer: "svg", config: config(), defaultStyle: false, tooltip: { disableDefaultStyle: true },
        });
      }
    } catch (error) {
      console.error(error);
      for (const element of document.querySelectorAll(".chart:empty")) element.textContent = `This chart could not be drawn: ${error.message}`;
    }
  }
  dark.addEventListener("change", draw);
  draw();
})();
