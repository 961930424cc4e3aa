/**
 * One JSON line per unit of work. Values are data, never format strings: line breaks inside them are escaped by JSON, so
 * nothing a tenant writes can forge a line. Never pass a secret, a token or a request body.
 */
export function logEvent(event: string, fields: Record<string, unknown>): void {
  console.log(JSON.stringify({ event, ...fields }));
}
