import { randomUUID } from "node:crypto";

export type Json = { [key: string]: unknown };

/** One stored object; `body` is everything but metadata and status. */
export interface Entry {
  resource: string;
  namespace: string;
  name: string;
  uid: string;
  labels: Record<string, string>;
  owners: { kind: string; name: string; uid: string }[];
  createdAt: Date;
  deletedAt: Date | null;
  version: number;
  body: Json;
  status: Json;
}

export type Change = { type: "ADDED" | "MODIFIED" | "DELETED"; entry: Entry; version: number };

export const isJson = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
/** A field that is an object, or an empty one. */
export const part = (value: unknown, ...keys: string[]): Json => {
  let here: unknown = value;
  for (const key of keys) here = isJson(here) ? here[key] : undefined;
  return isJson(here) ? here : {};
};
export const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
export const strings = (value: unknown): Record<string, string> =>
  Object.fromEntries(Object.entries(isJson(value) ? value : {}).map(([key, it]) => [key, String(it)]));

/** Whether labels fit a selector; a key that ends with "!" must not have the value. */
export const carries = (
  labels: Readonly<Record<string, string>>,
  selector: Readonly<Record<string, string>>,
): boolean =>
  Object.entries(selector).every(([key, value]) =>
    key.endsWith("!") ? labels[key.slice(0, -1)] !== value : labels[key] === value,
  );

/** Times of the API have whole seconds. */
export const stamp = (date: Date): string => `${date.toISOString().slice(0, 19)}Z`;

/** What etcd and the watch cache hold, with one counter of versions. */
export class ObjectStore {
  readonly #entries = new Map<string, Entry>();
  readonly #watchers = new Set<(change: Change) => void>();
  #log: Change[] = [];
  /** The cluster's clock. */
  readonly now: () => Date;
  version = 1_000;
  /** Versions below it are too old for a watch. */
  oldest = 0;

  constructor(now: () => Date) {
    this.now = now;
  }

  get(resource: string, namespace: string, name: string): Entry | undefined {
    return this.#entries.get(`${resource}/${namespace}/${name}`);
  }

  list(resource: string, namespace: string, labels: Readonly<Record<string, string>> = {}): Entry[] {
    return [...this.#entries.values()].filter(
      (entry) =>
        entry.resource === resource &&
        (namespace === "" || entry.namespace === namespace) &&
        carries(entry.labels, labels),
    );
  }

  add(resource: string, namespace: string, document: Json, status: Json = {}): Entry {
    const { metadata, apiVersion: _version, kind: _kind, status: _status, ...body } = document;
    const meta = part(metadata);
    const entry: Entry = {
      resource,
      namespace,
      name: String(meta.name),
      uid: randomUUID(),
      labels: strings(meta.labels),
      owners: ownersOf(meta),
      createdAt: this.now(),
      deletedAt: null,
      version: 0,
      body,
      status,
    };
    this.#entries.set(`${resource}/${namespace}/${entry.name}`, entry);
    this.#publish("ADDED", entry);
    return entry;
  }

  /** Notes that an entry was changed. */
  touch(entry: Entry): void {
    if (this.#entries.get(`${entry.resource}/${entry.namespace}/${entry.name}`) === entry)
      this.#publish("MODIFIED", entry);
  }

  remove(entry: Entry): void {
    const key = `${entry.resource}/${entry.namespace}/${entry.name}`;
    if (this.#entries.get(key) !== entry) return;
    this.#entries.delete(key);
    this.#publish("DELETED", entry);
    for (const owned of this.#entries.values())
      if (owned.resource === "secrets" && owned.owners.some(({ uid }) => uid === entry.uid)) this.remove(owned);
  }

  /** Changes after `version`, then live ones. @returns ends the watch */
  watch(version: number, listener: (change: Change) => void): () => void {
    for (const change of this.#log) if (change.version > version) listener(change);
    this.#watchers.add(listener);
    return () => this.#watchers.delete(listener);
  }

  #publish(type: Change["type"], entry: Entry): void {
    this.version += 1;
    entry.version = this.version;
    const change = { type, entry: { ...entry, status: structuredClone(entry.status) }, version: this.version };
    this.#log = [...this.#log.slice(-2_000), change];
    for (const watcher of this.#watchers) watcher(change);
  }
}

export const ownersOf = (meta: Json): Entry["owners"] =>
  list(meta.ownerReferences).map((owner) => {
    const { kind, name, uid } = part(owner);
    return { kind: String(kind), name: String(name), uid: String(uid) };
  });
