(() => {
  const canvas = document.createElementNS("http://www.w3.org/1999/xhtml", "canvas");
  canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", {willReadFrequently: true});
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1); context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
    return context.getImageData(0, 0, 1, 1).data;
  };
  const light = ([r, g, b]) => [r, g, b].map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const svg = document.documentElement.localName === "svg";
  const paper = (element) => {
    if (svg) {
      const rect = element.parentElement.id || element.parentElement === document.documentElement ? null : element.parentElement.querySelector("rect");
      return rgba(rect ? getComputedStyle(rect).fill : getComputedStyle(document.documentElement).backgroundColor);
    }
    for (let above = element; above; above = above.parentElement) {
      const colour = rgba(getComputedStyle(above).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return rgba(getComputedStyle(document.documentElement).colorScheme === "dark" ? "#000" : "#fff");
  };
  const found = new Set(), seen = new Set();
  const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(element) || !element.checkVisibility({checkOpacity: true})) continue;
    if (/^(script|style|title|noscript)$/.test(element.localName)) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    const ink = light(rgba(svg ? style.fill : style.color)), back = light(paper(element));
    const contrast = (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05);
    if (contrast < 4.5) found.add(`${element.localName}.${element.getAttribute("class") ?? ""} ${contrast.toFixed(2)} ${element.textContent.slice(0, 30)}`);
  }
  return [...found].slice(0, 10);
})()
