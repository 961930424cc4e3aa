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

// A part that could not be loaded: the connection broke, or another version was deployed meanwhile and its file is gone.
// The page is asked for again, at most once in a while.
(() => {
  const KEY = "everdict.reloaded";
  const PAUSE_MS = 15_000;
  const again = () => {
    try {
      const last = Number(sessionStorage.getItem(KEY) ?? 0);
      if (Date.now() - last < PAUSE_MS) return;
      sessionStorage.setItem(KEY, String(Date.now()));
      location.reload();
    } catch {
      // Without storage it could go on for ever.
    }
  };
  addEventListener("error", ({ target }) => target instanceof HTMLScriptElement && again(), true);
  // What a page in use asks for is waited for where nobody answers (web/api/chunks.ts): to reload it then would lose it.
  addEventListener("vite:preloadError", () => {
    fetch("/dashboard/", { method: "HEAD", cache: "no-store" }).then(again, () => undefined);
  });
})();
