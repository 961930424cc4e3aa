import { type RefObject, useEffect } from "react";

/**
 * When the focused control goes away with what it acted on, the browser would begin again at the top of the document.
 * The nearest part around it that is still there and can be focused takes the focus instead, else `fallback`.
 */
export function useKeptFocus(area: RefObject<HTMLElement | null>, fallback: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const root = area.current;
    if (!root) return;
    let around: HTMLElement[] = [];
    const note = (event: FocusEvent) => {
      around = [];
      for (let at = event.target as HTMLElement | null; at && at !== root; at = at.parentElement) around.push(at);
    };
    // A browser may tell of it while the control is being taken away; a moment later it is still there if it was left on
    // purpose, for another control or by a click on nothing.
    const left = ({ target }: FocusEvent) =>
      queueMicrotask(() => {
        if (around[0] === target && around[0]?.isConnected) around = [];
      });
    const observer = new MutationObserver(() => {
      const [lost] = around;
      if (lost === undefined || lost.isConnected || document.activeElement !== document.body) return;
      const next = around.find((one) => one.isConnected && one.tabIndex >= -1 && one.hasAttribute("tabindex"));
      around = [];
      (next ?? fallback.current)?.focus({ preventScroll: true });
    });
    root.addEventListener("focusin", note);
    root.addEventListener("focusout", left);
    observer.observe(root, { childList: true, subtree: true });
    return () => {
      root.removeEventListener("focusin", note);
      root.removeEventListener("focusout", left);
      observer.disconnect();
    };
  }, [area, fallback]);
}
