import { useEffect, useSyncExternalStore } from "react";

/** Something the page in view can do, for the command palette and, with a key, for the keyboard. */
export interface PageAction {
  id: string;
  label: string;
  key?: string;
  run: () => void;
}

/** Whoever offers actions now, in the order in which they came. */
const sources = new Map<object, readonly PageAction[]>();
let current: readonly PageAction[] = [];
const listeners = new Set<() => void>();

function changed(): void {
  current = [...sources.values()].flat();
  for (const listener of listeners) listener();
}

/** Offers actions while the caller is shown. Those that are not allowed are not to be in the list. */
export function usePageActions(actions: readonly PageAction[]): void {
  const signature = actions.map(({ id, label }) => `${id}:${label}`).join("|");
  // The page's own functions change with each render; what is offered changes with the signature.
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  useEffect(() => {
    const source = {};
    sources.set(source, actions);
    changed();
    return () => {
      sources.delete(source);
      changed();
    };
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
