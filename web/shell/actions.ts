import { useEffect, useSyncExternalStore } from "react";

/** Something the page in view can do, for the command palette and, with a key, for the keyboard. */
export interface PageAction {
  id: string;
  label: string;
  key?: string;
  run: () => void;
}

let current: readonly PageAction[] = [];
const listeners = new Set<() => void>();

function set(actions: readonly PageAction[]): void {
  current = actions;
  for (const listener of listeners) listener();
}

/** Offers a page's actions while it is shown. Those that are not allowed are not to be in the list. */
export function usePageActions(actions: readonly PageAction[]): void {
  const signature = actions.map(({ id, label }) => `${id}:${label}`).join("|");
  // The page's own functions change with each render; what is offered changes with the signature.
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  useEffect(() => {
    set(actions);
    return () => set([]);
  }, [signature]);
}

export const useCurrentActions = (): readonly PageAction[] =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
