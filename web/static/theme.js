// Before the first paint, so that the page never flashes in the other theme.
(() => {
  let wanted = null;
  try {
    wanted = localStorage.getItem("everdict.theme");
  } catch {
    // Storage may be denied; the system's theme it is.
  }
  const dark = wanted === "dark" || (wanted !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
