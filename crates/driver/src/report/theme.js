"use strict";
// The switch: as the system has it, light, dark. The choice is kept where the browser allows it.
{
  const root = document.documentElement;
  const names = ["auto", "light", "dark"];
  let theme = "auto";
  try { theme = localStorage.getItem("kiln-theme") || theme; } catch { /* files may have no storage */ }
  const set = (name) => {
    theme = names.includes(name) ? name : "auto";
    if (theme === "auto") root.removeAttribute("data-theme"); else root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = "Theme: " + theme;
  };
  set(theme);
  document.addEventListener("click", (event) => {
    if (event.target.id !== "theme") return;
    set(names[(names.indexOf(theme) + 1) % names.length]);
    try { localStorage.setItem("kiln-theme", theme); } catch { /* as above */ }
  });
}
