export type Logger = (event: string, fields: Record<string, string | number | boolean | null>) => void;

/** Writes decisions as one line of JSON each; fields never carry secrets or payloads. */
export function jsonLogger(component: string, write: (line: string) => void, now: () => number): Logger {
  return (event, fields) => {
    write(JSON.stringify({ at: new Date(now()).toISOString(), component, event, ...fields }));
  };
}
