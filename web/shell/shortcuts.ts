import { useEffect, useRef } from "react";
import { recall } from "../api/stored.ts";

/** A second key must follow within this time. */
const CHORD_MS = 1_200;

const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));

/** Single letters and two-key jumps can be switched off, for those whose tools send letters of their own. */
export const lettersOn = (): boolean => recall("letters") !== "off";

/**
 * Keys for the whole page: `mod+k`, `?`, `g r`. Nothing fires while somebody types or a dialog is open, but `mod+…`.
 */
export function useShortcuts(keys: Record<string, () => void>): void {
  const held = useRef(keys);
  held.current = keys;
  useEffect(() => {
    let first: { key: string; at: number } | null = null;
    const onKey = (event: KeyboardEvent) => {
      const mod = event.metaKey || event.ctrlKey;
      if (mod) {
        const action = held.current[`mod+${event.key.toLowerCase()}`];
        if (!action || event.altKey || event.shiftKey) return;
        event.preventDefault();
        action();
        return;
      }
      if (event.altKey || typing(event.target) || document.querySelector("[role=dialog],[role=alertdialog]")) return;
      if (!lettersOn()) return;
      const chord = first && event.timeStamp - first.at < CHORD_MS ? `${first.key} ${event.key}` : null;
      const action = (chord === null ? undefined : held.current[chord]) ?? held.current[event.key];
      first = { key: event.key, at: event.timeStamp };
      if (!action) return;
      first = null;
      event.preventDefault();
      action();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
