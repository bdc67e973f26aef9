// What a reader would object to on a page, as lines of text. `visible` text nodes are looked at one by one.
(() => {
  const SMALLEST = 11, CONTRAST = 4.5;
  const root = document.documentElement;
  const name = (node) => `${node.tagName.toLowerCase()}.${node.getAttribute("class") || ""} "${
    node.textContent.trim().replace(/\s+/g, " ").slice(0, 40)}"`;

  const texts = () => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const parent = node.parentElement;
      if (!node.data.trim() || parent.closest("title, style, defs, .hidden")) continue;
      if (parent.checkVisibility({ contentVisibilityAuto: true }) && getComputedStyle(parent).visibility === "visible")
        found.push([node, parent]);
    }
    return found;
  };

  const numbers = (color) => {
    const unit = color.startsWith("color(") ? 255 : 1;
    const [r, g, b, a = 1] = color.replace("color(srgb", "").match(/[\d.]+/g).map(Number);
    return [r * unit, g * unit, b * unit, a];
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
  const background = (node) => {
    const behind = [];
    for (let each = node; each; each = each.parentElement) behind.unshift(numbers(getComputedStyle(each).backgroundColor));
    return behind.reduce((below, color) => over(color, below), [255, 255, 255]);
  };
  const opacity = (node) => {
    let found = 1;
    for (let each = node; each; each = each.parentElement) found *= Number(getComputedStyle(each).opacity);
    return found;
  };
  const luminance = (color) => {
    const [r, g, b] = color.map((each) => {
      const part = each / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (node) => {
    const style = getComputedStyle(node), below = background(node);
    const ink = numbers(node.closest("svg") ? style.fill : style.color);
    ink[3] *= opacity(node);
    const [dark, bright] = [luminance(over(ink, below)), luminance(below)].sort((x, y) => x - y);
    return (bright + 0.05) / (dark + 0.05);
  };
  const size = (node) => {
    const pixels = parseFloat(getComputedStyle(node).fontSize);
    const matrix = node.closest("svg") && node.getScreenCTM && node.getScreenCTM();
    return matrix ? pixels * Math.hypot(matrix.a, matrix.b) : pixels;
  };

  const clipped = (node) => {
    const box = node.getBoundingClientRect();
    let [left, right] = [box.left, box.right];
    for (let each = node.parentElement; each; each = each.parentElement)
      if (getComputedStyle(each).overflowX !== "visible") {
        const edge = each.getBoundingClientRect();
        [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      }
    return { left, right, top: box.top, bottom: box.bottom };
  };
  // Boxes of words in figures are higher than their letters: `slack` is the part of the height that may be shared.
  const meet = (a, b, slack) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2 + slack * Math.min(a.bottom - a.top, b.bottom - b.top);
  const overlaps = (nodes, slack = 0) => {
    const boxes = nodes.filter((node) => node.checkVisibility({ contentVisibilityAuto: true })).map((node) => [node, clipped(node)])
      .filter(([, box]) => box.right > box.left && box.bottom > box.top).sort((a, b) => a[1].top - b[1].top);
    const found = [];
    boxes.forEach(([node, box], i) => {
      for (let k = i + 1; k < boxes.length && boxes[k][1].top < box.bottom; k++) {
        const other = boxes[k][0];
        if (!node.contains(other) && !other.contains(node) && meet(box, boxes[k][1], slack)) found.push(`overlap: ${name(node)} and ${name(other)}`);
      }
    });
    return found;
  };

  window.inspect = () => {
    const problems = [];
    if (root.scrollWidth > root.clientWidth) problems.push(`page scrolls sideways: ${root.scrollWidth} > ${root.clientWidth}`);
    for (const node of document.querySelectorAll("body *"))
      if (node.clientWidth && node.scrollWidth > node.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(node).overflowX)) {
        if (node.tabIndex < 0 || !node.getAttribute("aria-label")) problems.push(`box scrolls without a focusable, named region: ${name(node)}`);
        if (innerWidth >= 1200 && node.querySelector("table")) problems.push(`table scrolls on a wide screen: ${name(node)}`);
      } else if (/hidden|clip/.test(getComputedStyle(node).overflowX) && node.scrollWidth > node.clientWidth + 1 && node.clientWidth)
        problems.push(`cut off: ${name(node)}`);
    for (const node of document.images)
      if (!node.complete || !node.naturalWidth) problems.push(`picture not loaded: ${node.alt}`);
    for (const node of document.querySelectorAll("figure"))
      if (!node.querySelector("figcaption")?.textContent.trim()) problems.push(`figure without caption: ${name(node)}`);
    for (const node of document.querySelectorAll("section, article > div, h1, h2, h3, h4"))
      if (!node.textContent.trim() && !node.querySelector("img, svg")) problems.push(`empty: ${name(node)}`);
    for (const [, parent] of texts()) {
      const raised = parent.matches("tspan, sup, sub");  // exponents
      if (!raised && size(parent) < SMALLEST - 0.05) problems.push(`small text, ${size(parent).toFixed(1)} px: ${name(parent)}`);
      if (contrast(parent) < CONTRAST) problems.push(`contrast ${contrast(parent).toFixed(2)}: ${name(parent)}`);
    }
    problems.push(...overlaps([...document.querySelectorAll("h1, h2, h3, h4, p, figcaption, table, figure > svg, figure img, dt, dd, pre, summary")]));
    for (const figure of document.querySelectorAll("figure svg")) problems.push(...overlaps([...figure.querySelectorAll("text")], 0.3));
    return [...new Set(problems)];
  };
})();
