import { useSyncExternalStore } from "react";
import { recall, remember } from "../api/stored.ts";

export type ThemeChoice = "light" | "dark" | "system";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

const choice = (): ThemeChoice => {
  const stored = recall("theme");
  return stored === "light" || stored === "dark" ? stored : "system";
};

function apply(): void {
  const now = choice();
  document.documentElement.dataset.theme = now === "system" ? (dark.matches ? "dark" : "light") : now;
  for (const listener of listeners) listener();
}
dark.addEventListener("change", apply);

export function setTheme(next: ThemeChoice): void {
  remember("theme", next === "system" ? null : next);
  apply();
}

export const useTheme = (): ThemeChoice =>
  useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, choice);

/** What is on screen now, for what is drawn on a canvas. */
export const useDark = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => document.documentElement.dataset.theme === "dark",
  );
