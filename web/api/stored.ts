/* What this browser remembers. Storage may be full or denied; then nothing is remembered. */

export function recall(name: string): string | null {
  try {
    return localStorage.getItem(`everdict.${name}`);
  } catch {
    return null;
  }
}

export function remember(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`everdict.${name}`);
    else localStorage.setItem(`everdict.${name}`, value);
  } catch {
    // Not remembered.
  }
}
